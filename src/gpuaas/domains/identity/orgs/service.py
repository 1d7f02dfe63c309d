"""The verbs of organisations. Always holds: an organisation has an owner; a personal one has exactly its user, and
stays; one with projects is not deleted, also when a project is created at the same moment."""

import re
import secrets

from msgspec import UNSET

from gpuaas.contracts.actor import Actor
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.platform import OrgCreated, OrgDeleted, OrgUpdated
from gpuaas.contracts.http.orgs import OrgCreate, OrgUpdate
from gpuaas.contracts.permissions import Role
from gpuaas.domains.identity.orgs import store
from gpuaas.domains.identity.orgs.models import Org
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.errors import Broken, Conflict
from gpuaas.kit.ids import OrgId, UserId, new_id

list_of_user = store.list_of_user
list_all = store.list_all
lock = store.lock
_TRIES = 8


async def org_get(tx: Tx, actor: Actor, org_id: OrgId) -> Org:
    return await store.get(tx, org_id, actor.id)


async def org_create(tx: Tx, user_id: UserId, wanted: OrgCreate, *, max_orgs: int) -> Org:
    if await store.count_owned_locked(tx, user_id) >= max_orgs:
        raise Conflict(Code.ORG_LIMIT, f"You own {max_orgs} organisations, as many as allowed. Delete one first.")
    org_id = OrgId(new_id())
    await tx.enter_org(org_id)
    org = await store.insert(tx, org_id, name=wanted.name, title=wanted.title or wanted.name)
    return await _owned(tx, org, user_id)


async def personal_org_create(tx: Tx, user_id: UserId, *, email: str, title: str) -> Org:
    """The organisation every user has from his first login on. Its name is his address's, made unique."""
    org_id = OrgId(new_id())
    await tx.enter_org(org_id)
    stem = re.sub(r"[^a-z0-9]+", "-", email.partition("@")[0].lower()).strip("-")[:40].rstrip("-") or "user"
    for _ in range(_TRIES):
        name = f"{stem}-{secrets.token_hex(3)}"
        org = await store.insert_personal(tx, org_id, name=name, title=title, user_id=user_id)
        if org is not None:
            return await _owned(tx, org, user_id)
    raise Broken(Code.INTERNAL, "No name was found for the personal organisation.", log=f"stem {stem}")


async def _owned(tx: Tx, org: Org, user_id: UserId) -> Org:
    await store.own(tx, org.id, user_id)
    tx.emit(OrgCreated(org_id=org.id, name=org.name), subject_id=org.id)
    return _with_role(org, Role.OWNER)


async def org_update(tx: Tx, actor: Actor, org_id: OrgId, wanted: OrgUpdate) -> Org:
    name = None if wanted.name is UNSET else wanted.name
    title = None if wanted.title is UNSET else wanted.title
    org = await store.update(tx, org_id, name=name, title=title)
    tx.emit(OrgUpdated(org_id=org_id), subject_id=org_id)
    return _with_role(org, actor.org_roles.get(org_id))


async def org_delete(tx: Tx, org_id: OrgId) -> None:
    """Softly: the row stays for audit and money, nobody reaches it any more, the name is free again."""
    org = await store.lock_whole(tx, org_id)
    require_shared(org)
    if await store.has_projects(tx, org_id):
        raise Conflict(Code.ORG_NOT_EMPTY, "The organisation still has projects. Delete them first.")
    await store.delete(tx, org_id)
    tx.emit(OrgDeleted(org_id=org_id), subject_id=org_id)


def require_shared(org: Org) -> None:
    """Refuse what would make a personal organisation anything but its user's own."""
    if org.personal_of is not None:
        raise Conflict(
            Code.ORG_IS_PERSONAL, "A personal organisation has one member and stays. Create another one to share."
        )


def _with_role(org: Org, role: Role | None) -> Org:
    return Org(
        id=org.id,
        name=org.name,
        title=org.title,
        personal_of=org.personal_of,
        created_at=org.created_at,
        deleted_at=org.deleted_at,
        role=role,
    )
