"""The verbs of service accounts and their keys.

Always holds: an account's role is not above that of whoever makes, changes or gets a key for it; its allow-list names
operations that exist; a key is shown once, kept as a hash, expires, and dies with its account, as do the invitations
the account sent."""

from datetime import timedelta

import msgspec
from msgspec import UNSET

from gpuaas.contracts.actor import Actor
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.platform import ServiceAccountCreated, ServiceAccountDeleted
from gpuaas.contracts.http.service_accounts import ServiceAccountCreate, ServiceAccountUpdate
from gpuaas.contracts.permissions import RANK, Role
from gpuaas.domains.identity.members import service as members
from gpuaas.domains.identity.members.ranks import rank_of, require_rank
from gpuaas.domains.identity.orgs import service as orgs
from gpuaas.domains.identity.projects import service as projects
from gpuaas.domains.identity.service_accounts import allow_list, store
from gpuaas.domains.identity.service_accounts.models import Key, ServiceAccount
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit import clock
from gpuaas.kit.errors import Conflict, Detail, Missing, Refused
from gpuaas.kit.ids import KeyId, OrgId, ServiceAccountId, new_id
from gpuaas.kit.secrets import SERVICE_KEY_PREFIX, new_token, token_hash

DEFAULT_DAYS = 90
HINT_LENGTH = len(SERVICE_KEY_PREFIX) + 4

list_of_org = store.list_of_org
service_account_get = store.get


class KeyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What policy says about keys."""

    max_days: int
    max_keys: int


async def service_account_create(
    tx: Tx, actor: Actor, org_id: OrgId, wanted: ServiceAccountCreate, *, known: frozenset[str], max_accounts: int
) -> ServiceAccount:
    role, allowed = Role(wanted.role), allow_list.checked(wanted.allowed_operations, known)
    require_rank(rank_of(actor, org_id), role)
    allow_list.require_within(actor, allowed)
    if wanted.project_id is not None:
        project = await projects.project_get(tx, wanted.project_id)
        if project.org_id != org_id:
            raise Missing(Code.PROJECT_MISSING, "There is no such project, or you are not in its organisation.")
    await orgs.lock(tx, org_id)
    if await store.count(tx, org_id) >= max_accounts:
        raise Conflict(
            Code.SERVICE_ACCOUNT_LIMIT,
            f"The organisation has {max_accounts} service accounts, as many as allowed. Delete one first.",
        )
    account = await store.insert(
        tx,
        ServiceAccountId(new_id()),
        org_id,
        project_id=wanted.project_id,
        name=wanted.name,
        role=role,
        allowed_operations=allowed,
        created_by=actor.id or org_id,
    )
    tx.emit(ServiceAccountCreated(service_account_id=account.id), subject_id=account.id)
    return account


async def service_account_update(
    tx: Tx, actor: Actor, org_id: OrgId, account_id: ServiceAccountId, wanted: ServiceAccountUpdate,
    *, known: frozenset[str],
) -> ServiceAccount:  # fmt: skip
    account = await _mine(tx, actor, org_id, account_id)
    role = None if wanted.role is UNSET else Role(wanted.role)
    allowed = None if wanted.allowed_operations is UNSET else allow_list.checked(wanted.allowed_operations, known)
    require_rank(rank_of(actor, org_id), *([role] if role else []))
    allow_list.require_within(actor, allowed or [])
    name = None if wanted.name is UNSET else wanted.name
    if role is not None and RANK[role] < RANK[account.role]:
        await members.invitations_drop(tx, org_id, account_id)
    return await store.update(tx, org_id, account_id, name=name, role=role, allowed_operations=allowed)


async def service_account_delete(tx: Tx, actor: Actor, org_id: OrgId, account_id: ServiceAccountId) -> None:
    await _mine(tx, actor, org_id, account_id)
    await store.delete(tx, org_id, account_id)
    await members.invitations_drop(tx, org_id, account_id)
    tx.emit(ServiceAccountDeleted(service_account_id=account_id), subject_id=account_id)


async def key_list(tx: Tx, org_id: OrgId, account_id: ServiceAccountId, *, after: KeyId, limit: int) -> list[Key]:
    account = await store.get(tx, org_id, account_id)
    return await store.keys(tx, account.id, after=after, limit=limit)


async def key_create(
    tx: Tx, actor: Actor, org_id: OrgId, account_id: ServiceAccountId, *, days: int | None, limits: KeyLimits
) -> tuple[Key, str]:
    """The key's row, and the key."""
    account = await _mine(tx, actor, org_id, account_id)
    return await _issue(tx, account, days=days, limits=limits, beside=None)


async def key_rotate(
    tx: Tx, actor: Actor, org_id: OrgId, account_id: ServiceAccountId, key_id: KeyId, *, overlap_seconds: int,
    days: int | None, limits: KeyLimits,
) -> tuple[Key, str]:  # fmt: skip
    """A new key; the old one works on for the overlap, then ends."""
    account = await _mine(tx, actor, org_id, account_id)
    await store.curtail_key(tx, account.id, key_id, overlap_seconds=overlap_seconds)
    return await _issue(tx, account, days=days, limits=limits, beside=key_id)


async def key_revoke(tx: Tx, actor: Actor, org_id: OrgId, account_id: ServiceAccountId, key_id: KeyId) -> Key:
    account = await _mine(tx, actor, org_id, account_id)
    return await store.revoke_key(tx, account.id, key_id)


async def _issue(
    tx: Tx, account: ServiceAccount, *, days: int | None, limits: KeyLimits, beside: KeyId | None
) -> tuple[Key, str]:
    if days is not None and days > limits.max_days:
        raise Refused(
            Code.REQUEST_INVALID,
            f"A key may live at most {limits.max_days} days here.",
            details=[Detail("expires_in_days", f"more than {limits.max_days}")],
        )
    if await store.live_keys(tx, account.id, beside=beside) >= limits.max_keys:
        raise Conflict(
            Code.SERVICE_ACCOUNT_KEY_LIMIT, f"The service account has {limits.max_keys} live keys. Revoke one first."
        )
    secret = new_token(SERVICE_KEY_PREFIX)
    lives = timedelta(days=days or min(DEFAULT_DAYS, limits.max_days))
    key = await store.insert_key(
        tx,
        KeyId(new_id()),
        account,
        key_hash=token_hash(secret),
        hint=secret[:HINT_LENGTH],
        expires_at=clock.now() + lives,
    )
    return key, secret


async def _mine(tx: Tx, actor: Actor, org_id: OrgId, account_id: ServiceAccountId) -> ServiceAccount:
    """The account, locked, if it is none stronger than the actor himself."""
    account = await store.lock(tx, org_id, account_id)
    require_rank(rank_of(actor, org_id), account.role)
    allow_list.require_within(actor, account.allowed_operations)
    return account
