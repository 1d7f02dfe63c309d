"""Operations on oneself, and on all users for the platform's admins."""

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.users import MeUpdate, MeView, PlatformRolesSet, UserQuery, UserStateReason, UserView
from gpuaas.contracts.permissions import P
from gpuaas.domains.identity.users import service
from gpuaas.domains.identity.users.models import User
from gpuaas.infra.http.context import PlatformContext, UserContext
from gpuaas.infra.http.listing import after, page
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit.ids import UserId


def view(user: User) -> UserView:
    return msgspec.convert(user, UserView, from_attributes=True)


@operation("GET", "/users/me", permission=P.SELF, lane=Lane.DEFAULT, tag="users")
async def user_me_get(cx: UserContext) -> MeView:
    """Show who you are and where you belong."""
    user = await service.user_get(cx.tx, UserId(cx.user_id))
    orgs, projects = await service.user_memberships(cx.tx, user.id)
    return MeView(**msgspec.structs.asdict(view(user)), orgs=orgs, projects=projects)


@operation("PATCH", "/users/me", permission=P.SELF, lane=Lane.DEFAULT, audit="user.update", tag="users")
async def user_me_update(cx: UserContext, wanted: MeUpdate) -> UserView:
    """Change the name others see.

    The email address is the identity provider's to change."""
    return view(await service.user_me_update(cx.tx, UserId(cx.user_id), name=wanted.name))


@operation("GET", "/platform/users", permission=P.USERS_READ, lane=Lane.ADMIN, tag="users")
async def user_list(cx: PlatformContext, query: UserQuery) -> Page[UserView]:
    """List all users; with `email`, those of one address."""
    rows = await service.list_all(cx.tx, after=after(cx, query), limit=query.limit + 1, email=query.email)
    return page(cx, query, rows, view)


@operation(
    "GET",
    "/platform/users/{user_id}",
    permission=P.USERS_READ,
    lane=Lane.ADMIN,
    tag="users",
    errors=(Code.USER_MISSING,),
)
async def user_get(cx: PlatformContext, user_id: UserId) -> UserView:
    """Show a user."""
    return view(await service.user_get(cx.tx, user_id))


@operation(
    "POST",
    "/platform/users/{user_id}/disable",
    permission=P.USERS_MANAGE,
    lane=Lane.ADMIN,
    audit="user.disable",
    tag="users",
    errors=(Code.USER_MISSING, Code.SELF_CHANGE_REFUSED, Code.STATE_MOVE_REFUSED),
)
async def user_disable(cx: PlatformContext, user_id: UserId, wanted: UserStateReason) -> UserView:
    """Disable a user: every token of his is refused within a second, on every replica.

    What he owns stays. You cannot disable yourself."""
    return view(await service.user_disable(cx.tx, cx.actor, user_id))


@operation(
    "POST",
    "/platform/users/{user_id}/enable",
    permission=P.USERS_MANAGE,
    lane=Lane.ADMIN,
    audit="user.enable",
    tag="users",
    errors=(Code.USER_MISSING, Code.SELF_CHANGE_REFUSED, Code.STATE_MOVE_REFUSED),
)
async def user_enable(cx: PlatformContext, user_id: UserId, wanted: UserStateReason) -> UserView:
    """Let a disabled user in again."""
    return view(await service.user_enable(cx.tx, cx.actor, user_id))


@operation(
    "PUT",
    "/platform/users/{user_id}/platform-roles",
    permission=P.USERS_MANAGE,
    lane=Lane.ADMIN,
    audit="user.platform_roles_set",
    tag="users",
    errors=(Code.USER_MISSING, Code.SELF_CHANGE_REFUSED),
)
async def user_platform_roles_set(cx: PlatformContext, user_id: UserId, wanted: PlatformRolesSet) -> UserView:
    """Say which platform roles a user holds; those not named are taken away.

    Nobody changes his own, so there is always a platform admin left."""
    return view(await service.user_platform_roles_set(cx.tx, cx.actor, user_id, wanted.roles))
