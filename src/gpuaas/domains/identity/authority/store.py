"""SQL of credentials: all that decides about one, in one statement."""

from typing import Any
from uuid import UUID

import msgspec

from gpuaas.domains.identity.authority.models import KeyStanding, UserStanding
from gpuaas.infra.postgres.tx import Row, Tx, decode
from gpuaas.kit.ids import KeyId, OrgId, ProjectId

USER = """
SELECT u.id, u.name, u.email, u.state, u.platform_roles,
    u.last_login_at < now() - interval '1 minute' OR ($4 <> '' AND (u.email, u.email_verified) <> ($4, $5)) AS stale,
    EXISTS (SELECT FROM revoked_credentials WHERE credential_id = $3) AS revoked,
    (SELECT marked_at FROM issuer_key_marks) AS marked_at,
    (SELECT coalesce(jsonb_object_agg(m.org_id, m.role), '{}') FROM org_members m JOIN orgs o ON o.id = m.org_id
     WHERE m.user_id = u.id AND o.deleted_at IS NULL) AS org_roles,
    (SELECT coalesce(jsonb_object_agg(m.project_id, m.role), '{}')
     FROM project_members m JOIN projects p ON p.id = m.project_id JOIN orgs o ON o.id = m.org_id
     WHERE m.user_id = u.id AND p.deleted_at IS NULL AND o.deleted_at IS NULL) AS project_roles
FROM (SELECT) AS always LEFT JOIN users u ON u.issuer = $1 AND u.subject = $2
"""
_KEY = """
SELECT k.id AS key_id, k.expires_at, k.expires_at <= now() AS expired,
    coalesce(k.last_used_at < now() - interval '1 minute', true) AS stale,
    k.revoked_at IS NOT NULL OR EXISTS (SELECT FROM revoked_credentials r WHERE r.credential_id IN (k.id::text, $2))
        AS revoked,
    (SELECT marked_at FROM issuer_key_marks) AS marked_at,
    a.id, a.name, a.org_id, a.project_id, a.role, a.allowed_operations
FROM service_account_keys k
JOIN service_accounts a ON a.id = k.service_account_id AND a.deleted_at IS NULL
JOIN orgs o ON o.id = a.org_id AND o.deleted_at IS NULL
LEFT JOIN projects p ON p.id = a.project_id
WHERE (a.project_id IS NULL OR p.deleted_at IS NULL)
"""
KEY_BY_HASH = _KEY + "AND k.key_hash = $1"
KEY_BY_ID = _KEY + "AND k.id = $1"
KEY_USED = """
UPDATE service_account_keys SET last_used_at = now()
WHERE id = $1 AND coalesce(last_used_at < now() - interval '1 minute', true)
"""
ORG_OF = """
SELECT p.org_id FROM projects p JOIN orgs o ON o.id = p.org_id
WHERE p.id = $1 AND p.deleted_at IS NULL AND o.deleted_at IS NULL
"""
ORG_EXISTS = "SELECT EXISTS (SELECT FROM orgs WHERE id = $1 AND deleted_at IS NULL)"


async def user_standing(
    tx: Tx, issuer: str, subject: str, *, credential_id: str, email: str, email_verified: bool
) -> UserStanding:
    row = await tx.row(USER, issuer, subject, credential_id, email, email_verified)
    if row is None:
        raise LookupError("the statement always has a row")
    fields: dict[str, Any] = dict(row)
    for roles in ("org_roles", "project_roles"):
        fields[roles] = msgspec.json.decode(fields[roles])
    return msgspec.convert(fields, UserStanding, strict=False)


async def key_by_hash(tx: Tx, key_hash: bytes) -> KeyStanding | None:
    return _key(await tx.row(KEY_BY_HASH, key_hash, ""))


async def key_by_id(tx: Tx, key_id: UUID, *, credential_id: str) -> KeyStanding | None:
    return _key(await tx.row(KEY_BY_ID, key_id, credential_id))


async def key_used(tx: Tx, key_id: KeyId) -> None:
    await tx.run(KEY_USED, key_id)


async def org_of(tx: Tx, project_id: ProjectId) -> OrgId | None:
    found: OrgId | None = await tx.value(ORG_OF, project_id)
    return found


async def org_exists(tx: Tx, org_id: OrgId) -> bool:
    return bool(await tx.value(ORG_EXISTS, org_id))


def _key(row: Row | None) -> KeyStanding | None:
    return None if row is None else decode(KeyStanding, row)
