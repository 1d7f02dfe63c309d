"""SQL of service accounts and their keys. Only the hash of a key is kept, and how it begins."""

from datetime import datetime
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.permissions import Role
from gpuaas.domains.identity.service_accounts.models import Key, ServiceAccount
from gpuaas.infra.postgres.tx import Row, Tx, conflicts, decode, decode_all
from gpuaas.kit.errors import Missing
from gpuaas.kit.ids import KeyId, OrgId, ProjectId, ServiceAccountId

_NAMES = {"service_accounts_one_name": Code.SERVICE_ACCOUNT_NAME_TAKEN}

LIST = "SELECT * FROM service_accounts WHERE org_id = $1 AND deleted_at IS NULL AND id > $2 ORDER BY id LIMIT $3"
GET = "SELECT * FROM service_accounts WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL"
COUNT = "SELECT count(*) FROM service_accounts WHERE org_id = $1 AND deleted_at IS NULL"
LOCK = "SELECT * FROM service_accounts WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL FOR NO KEY UPDATE"
INSERT = """
INSERT INTO service_accounts (id, org_id, project_id, name, role, allowed_operations, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING *
"""
UPDATE = """
UPDATE service_accounts SET name = coalesce($3, name), role = coalesce($4, role),
    allowed_operations = coalesce($5, allowed_operations)
WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL RETURNING *
"""
# With it go its keys: none of them may outlive the account they speak for.
DELETE = """
WITH revoked AS (
    UPDATE service_account_keys SET revoked_at = now()
    WHERE org_id = $1 AND service_account_id = $2 AND revoked_at IS NULL
)
UPDATE service_accounts SET deleted_at = now() WHERE org_id = $1 AND id = $2 AND deleted_at IS NULL RETURNING *
"""
KEYS = """
SELECT id, service_account_id, hint, created_at, expires_at, revoked_at, last_used_at
FROM service_account_keys WHERE service_account_id = $1 AND id > $2 ORDER BY id LIMIT $3
"""
LIVE_KEYS = """
SELECT count(*) FROM service_account_keys
WHERE service_account_id = $1 AND revoked_at IS NULL AND expires_at > now() AND id IS DISTINCT FROM $2
"""
INSERT_KEY = """
INSERT INTO service_account_keys (id, org_id, service_account_id, key_hash, hint, expires_at)
VALUES ($1, $2, $3, $4, $5, $6)
RETURNING id, service_account_id, hint, created_at, expires_at, revoked_at, last_used_at
"""
# A key that is rotated out works on for a while, never longer than it would have.
CURTAIL_KEY = """
UPDATE service_account_keys SET expires_at = least(expires_at, now() + $3 * interval '1 second')
WHERE service_account_id = $1 AND id = $2 AND revoked_at IS NULL AND expires_at > now()
RETURNING id, service_account_id, hint, created_at, expires_at, revoked_at, last_used_at
"""
REVOKE_KEY = """
UPDATE service_account_keys SET revoked_at = coalesce(revoked_at, now())
WHERE service_account_id = $1 AND id = $2
RETURNING id, service_account_id, hint, created_at, expires_at, revoked_at, last_used_at
"""


async def list_of_org(tx: Tx, org_id: OrgId, *, after: UUID, limit: int) -> list[ServiceAccount]:
    return decode_all(ServiceAccount, await tx.rows(LIST, org_id, after, limit))


async def get(tx: Tx, org_id: OrgId, account_id: ServiceAccountId) -> ServiceAccount:
    return _found(await tx.row(GET, org_id, account_id))


async def lock(tx: Tx, org_id: OrgId, account_id: ServiceAccountId) -> ServiceAccount:
    return _found(await tx.row(LOCK, org_id, account_id))


async def count(tx: Tx, org_id: OrgId) -> int:
    """The caller holds the organisation's lock (`orgs.service.lock`)."""
    return int(await tx.value(COUNT, org_id))


async def insert(
    tx: Tx, account_id: ServiceAccountId, org_id: OrgId, *, project_id: ProjectId | None, name: str, role: Role,
    allowed_operations: list[str], created_by: UUID,
) -> ServiceAccount:  # fmt: skip
    with conflicts(_NAMES):
        row = await tx.row(INSERT, account_id, org_id, project_id, name, role, allowed_operations, created_by)
    return _found(row)


async def update(
    tx: Tx, org_id: OrgId, account_id: ServiceAccountId, *, name: str | None, role: Role | None,
    allowed_operations: list[str] | None,
) -> ServiceAccount:  # fmt: skip
    with conflicts(_NAMES):
        return _found(await tx.row(UPDATE, org_id, account_id, name, role, allowed_operations))


async def delete(tx: Tx, org_id: OrgId, account_id: ServiceAccountId) -> None:
    _found(await tx.row(DELETE, org_id, account_id))


async def keys(tx: Tx, account_id: ServiceAccountId, *, after: UUID, limit: int) -> list[Key]:
    return decode_all(Key, await tx.rows(KEYS, account_id, after, limit))


async def live_keys(tx: Tx, account_id: ServiceAccountId, *, beside: KeyId | None) -> int:
    return int(await tx.value(LIVE_KEYS, account_id, beside))


async def insert_key(
    tx: Tx, key_id: KeyId, account: ServiceAccount, *, key_hash: bytes, hint: str, expires_at: datetime
) -> Key:
    return _key(await tx.row(INSERT_KEY, key_id, account.org_id, account.id, key_hash, hint, expires_at))


async def curtail_key(tx: Tx, account_id: ServiceAccountId, key_id: KeyId, *, overlap_seconds: int) -> Key:
    return _key(await tx.row(CURTAIL_KEY, account_id, key_id, overlap_seconds))


async def revoke_key(tx: Tx, account_id: ServiceAccountId, key_id: KeyId) -> Key:
    return _key(await tx.row(REVOKE_KEY, account_id, key_id))


def _found(row: Row | None) -> ServiceAccount:
    if row is None:
        raise Missing(Code.SERVICE_ACCOUNT_MISSING, "There is no such service account here.")
    return decode(ServiceAccount, row)


def _key(row: Row | None) -> Key:
    if row is None:
        raise Missing(Code.SERVICE_ACCOUNT_KEY_MISSING, "The service account has no such key, or it has ended.")
    return decode(Key, row)
