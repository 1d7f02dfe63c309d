"""Operations on service accounts and their keys."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Done, Page, PageQuery
from gpuaas.contracts.http.service_accounts import (
    KeyCreate,
    KeyCreated,
    KeyRotate,
    KeyView,
    ServiceAccountCreate,
    ServiceAccountUpdate,
    ServiceAccountView,
)
from gpuaas.contracts.permissions import P
from gpuaas.domains.identity.service_accounts import service
from gpuaas.domains.identity.service_accounts.models import Key, ServiceAccount
from gpuaas.infra.http.context import OrgContext
from gpuaas.infra.http.listing import after, page
from gpuaas.infra.http.operation import Lane, Registry, operation
from gpuaas.kit.ids import KeyId, ServiceAccountId

_ACCOUNT = "/orgs/{org_id}/service-accounts/{service_account_id}"
_TOO_STRONG = (Code.ROLE_ABOVE_YOURS, Code.OPERATION_NOT_IN_ALLOW_LIST)
_CHANGE = (Code.SERVICE_ACCOUNT_MISSING, *_TOO_STRONG)
_KEY = (*_CHANGE, Code.SERVICE_ACCOUNT_KEY_MISSING)


def view(account: ServiceAccount) -> ServiceAccountView:
    return ServiceAccountView(
        id=account.id,
        org_id=account.org_id,
        project_id=account.project_id,
        name=account.name,
        role=account.role,
        allowed_operations=account.allowed_operations,
        created_at=account.created_at,
    )


def key_view(key: Key) -> KeyView:
    return KeyView(
        id=key.id,
        hint=key.hint,
        created_at=key.created_at,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
        last_used_at=key.last_used_at,
    )


@operation(
    "GET",
    "/orgs/{org_id}/service-accounts",
    permission=P.SERVICE_ACCOUNTS_READ,
    lane=Lane.DEFAULT,
    tag="service_accounts",
)
async def service_account_list(cx: OrgContext, query: PageQuery) -> Page[ServiceAccountView]:
    """List an organisation's service accounts."""
    rows = await service.list_of_org(cx.tx, cx.org_id, after=after(cx, query), limit=query.limit + 1)
    return page(cx, query, rows, view)


@operation(
    "POST",
    "/orgs/{org_id}/service-accounts",
    permission=P.SERVICE_ACCOUNTS_MANAGE,
    lane=Lane.DEFAULT,
    audit="service_account.create",
    status=201,
    tag="service_accounts",
    errors=(
        Code.SERVICE_ACCOUNT_NAME_TAKEN,
        Code.SERVICE_ACCOUNT_LIMIT,
        Code.OPERATION_UNKNOWN,
        Code.PROJECT_MISSING,
        *_TOO_STRONG,
    ),
)
async def service_account_create(cx: OrgContext, wanted: ServiceAccountCreate) -> ServiceAccountView:
    """Create a service account: an identity for a program.

    It holds one role, not above yours, in the organisation or in one project, and may call only the operations on its
    allow-list."""
    known = cx.parts.get(Registry).ids()
    max_accounts = cx.policy.number("identity.service_accounts_per_org_max", cx.org_id)
    return view(
        await service.service_account_create(cx.tx, cx.actor, cx.org_id, wanted, known=known, max_accounts=max_accounts)
    )


@operation(
    "GET",
    _ACCOUNT,
    permission=P.SERVICE_ACCOUNTS_READ,
    lane=Lane.DEFAULT,
    tag="service_accounts",
    errors=(Code.SERVICE_ACCOUNT_MISSING,),
)
async def service_account_get(cx: OrgContext, service_account_id: ServiceAccountId) -> ServiceAccountView:
    """Show a service account."""
    return view(await service.service_account_get(cx.tx, cx.org_id, service_account_id))


@operation(
    "PATCH",
    _ACCOUNT,
    permission=P.SERVICE_ACCOUNTS_MANAGE,
    lane=Lane.DEFAULT,
    audit="service_account.update",
    tag="service_accounts",
    errors=(Code.SERVICE_ACCOUNT_NAME_TAKEN, Code.OPERATION_UNKNOWN, *_CHANGE),
)
async def service_account_update(
    cx: OrgContext, service_account_id: ServiceAccountId, wanted: ServiceAccountUpdate
) -> ServiceAccountView:
    """Change a service account's name, role or allow-list. Holds for its next request, a second later at most."""
    known = cx.parts.get(Registry).ids()
    return view(
        await service.service_account_update(cx.tx, cx.actor, cx.org_id, service_account_id, wanted, known=known)
    )


@operation(
    "DELETE",
    _ACCOUNT,
    permission=P.SERVICE_ACCOUNTS_MANAGE,
    lane=Lane.DEFAULT,
    audit="service_account.delete",
    tag="service_accounts",
    errors=_CHANGE,
)
async def service_account_delete(cx: OrgContext, service_account_id: ServiceAccountId) -> Done:
    """Delete a service account. Its keys stop working at once."""
    await service.service_account_delete(cx.tx, cx.actor, cx.org_id, service_account_id)
    return Done()


@operation(
    "GET",
    _ACCOUNT + "/keys",
    permission=P.SERVICE_ACCOUNTS_READ,
    lane=Lane.DEFAULT,
    tag="service_accounts",
    errors=(Code.SERVICE_ACCOUNT_MISSING,),
)
async def service_account_key_list(
    cx: OrgContext, service_account_id: ServiceAccountId, query: PageQuery
) -> Page[KeyView]:
    """List a service account's keys, the ended ones too. A key itself is never shown again."""
    rows = await service.key_list(
        cx.tx, cx.org_id, service_account_id, after=KeyId(after(cx, query)), limit=query.limit + 1
    )
    return page(cx, query, rows, key_view)


@operation(
    "POST",
    _ACCOUNT + "/keys",
    permission=P.SERVICE_ACCOUNTS_MANAGE,
    lane=Lane.DEFAULT,
    audit="service_account_key.create",
    status=201,
    tag="service_accounts",
    errors=(Code.SERVICE_ACCOUNT_KEY_LIMIT, *_CHANGE),
)
async def service_account_key_create(
    cx: OrgContext, service_account_id: ServiceAccountId, wanted: KeyCreate
) -> KeyCreated:
    """Create a key for a service account. It is shown once.

    Send it as a Bearer credential. It expires; rotate it before."""
    return _created(cx, *await service.key_create(
        cx.tx, cx.actor, cx.org_id, service_account_id, days=wanted.expires_in_days, limits=_limits(cx)
    ))  # fmt: skip


@operation(
    "POST",
    _ACCOUNT + "/keys/{key_id}/rotate",
    permission=P.SERVICE_ACCOUNTS_MANAGE,
    lane=Lane.DEFAULT,
    audit="service_account_key.rotate",
    status=201,
    tag="service_accounts",
    errors=(Code.SERVICE_ACCOUNT_KEY_LIMIT, *_KEY),
)
async def service_account_key_rotate(
    cx: OrgContext, service_account_id: ServiceAccountId, key_id: KeyId, wanted: KeyRotate
) -> KeyCreated:
    """Replace a key: a new one, shown once, while the old one works on for `overlap_seconds`."""
    return _created(cx, *await service.key_rotate(
        cx.tx, cx.actor, cx.org_id, service_account_id, key_id, overlap_seconds=wanted.overlap_seconds,
        days=wanted.expires_in_days, limits=_limits(cx),
    ))  # fmt: skip


@operation(
    "DELETE",
    _ACCOUNT + "/keys/{key_id}",
    permission=P.SERVICE_ACCOUNTS_MANAGE,
    lane=Lane.DEFAULT,
    audit="service_account_key.revoke",
    tag="service_accounts",
    errors=_KEY,
)
async def service_account_key_revoke(cx: OrgContext, service_account_id: ServiceAccountId, key_id: KeyId) -> KeyView:
    """Revoke a key: it is refused within a second on every replica."""
    return key_view(await service.key_revoke(cx.tx, cx.actor, cx.org_id, service_account_id, key_id))


def _limits(cx: OrgContext) -> service.KeyLimits:
    return service.KeyLimits(
        max_days=cx.policy.number("identity.service_account_key_max_days", cx.org_id),
        max_keys=cx.policy.number("identity.service_account_keys_max", cx.org_id),
    )


def _created(cx: OrgContext, key: Key, secret: str) -> KeyCreated:
    cx.subject_id = key.id
    return KeyCreated(id=key.id, key=secret, hint=key.hint, expires_at=key.expires_at)
