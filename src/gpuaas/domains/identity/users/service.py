"""The verbs of users.

Always holds: one user per subject of an issuer, with one personal organisation, however many first logins race; nobody
disables himself or changes his own platform roles."""

from collections.abc import Iterable

from gpuaas.contracts.actor import Actor
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.platform import PlatformRolesChanged, UserCreated, UserDisabled, UserEnabled
from gpuaas.contracts.http.users import OrgMembership, ProjectMembership, UserState
from gpuaas.contracts.permissions import PlatformRole
from gpuaas.domains.identity.orgs import service as orgs
from gpuaas.domains.identity.users import store
from gpuaas.domains.identity.users.models import Profile, User
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.errors import Broken, Conflict
from gpuaas.kit.ids import OrgId, UserId, new_id

list_all = store.list_all
user_get = store.get
user_seen = store.seen


async def user_ensure(
    tx: Tx, *, issuer: str, subject: str, email: str = "", email_verified: bool = False, name: str = ""
) -> tuple[User, OrgId | None]:
    """The user of a subject; made with a personal organisation, whose id is then told, if it is his first login.

    Works across organisations, so the transaction must see the platform; it still does afterwards."""
    await tx.enter_platform()
    found = await store.by_subject(tx, issuer, subject)
    if found is not None:
        return found, None
    shown = name or email.partition("@")[0] or "user"
    profile = Profile(issuer=issuer, subject=subject, email=email, email_verified=email_verified, name=shown[:120])
    user = await store.insert(tx, UserId(new_id()), profile)
    if user is None:
        other = await store.by_subject(tx, issuer, subject)
        if other is None:
            raise Broken(Code.INTERNAL, "The user could not be created.", log=f"no row for {issuer} {subject}")
        return other, None
    org = await orgs.personal_org_create(tx, user.id, email=email, title=profile.name)
    await tx.enter_platform()
    tx.emit(UserCreated(user_id=user.id, personal_org_id=org.id), subject_id=user.id, org_id=org.id)
    return user, org.id


async def user_memberships(tx: Tx, user_id: UserId) -> tuple[list[OrgMembership], list[ProjectMembership]]:
    """Where he belongs, in all organisations: of his own memberships he sees each, from anywhere."""
    return await store.orgs(tx, user_id), await store.projects(tx, user_id)


async def user_me_update(tx: Tx, user_id: UserId, *, name: str) -> User:
    return await store.rename(tx, user_id, name)


async def user_disable(tx: Tx, actor: Actor, user_id: UserId) -> User:
    """His tokens are refused within a second everywhere; what he owns stays."""
    _not_oneself(actor, user_id)
    user = await store.move(tx, user_id, to=UserState.DISABLED)
    tx.emit(UserDisabled(user_id=user.id, issuer=user.issuer, subject=user.subject), subject_id=user.id)
    return user


async def user_enable(tx: Tx, actor: Actor, user_id: UserId) -> User:
    _not_oneself(actor, user_id)
    user = await store.move(tx, user_id, to=UserState.ACTIVE)
    tx.emit(UserEnabled(user_id=user.id), subject_id=user.id)
    return user


async def user_platform_roles_set(tx: Tx, actor: Actor, user_id: UserId, roles: Iterable[PlatformRole]) -> User:
    _not_oneself(actor, user_id)
    return await _set_roles(tx, user_id, roles)


async def platform_role_grant(tx: Tx, user_id: UserId, role: PlatformRole) -> User:
    """One more platform role: for seeding, before there is anybody who could be asked."""
    user = await store.lock(tx, user_id)
    return user if role in user.platform_roles else await _set_roles(tx, user_id, [*user.platform_roles, role])


async def _set_roles(tx: Tx, user_id: UserId, roles: Iterable[PlatformRole]) -> User:
    wanted = sorted(set(roles))
    user = await store.set_roles(tx, user_id, wanted)
    tx.emit(PlatformRolesChanged(user_id=user_id, roles=wanted), subject_id=user_id)
    return user


def _not_oneself(actor: Actor, user_id: UserId) -> None:
    if actor.id == user_id:
        raise Conflict(Code.SELF_CHANGE_REFUSED, "You cannot do this to yourself. Ask another admin.")
