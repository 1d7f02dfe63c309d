"""SQL of invitations. Only the hash of a token is kept; whether one is open follows from its times."""

from datetime import datetime
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.permissions import Role
from gpuaas.domains.identity.invitations.models import Invitation
from gpuaas.infra.postgres.tx import Row, Tx, conflicts, decode, decode_all
from gpuaas.kit.errors import Missing
from gpuaas.kit.ids import InvitationId, OrgId, UserId

LIST = "SELECT * FROM invitations WHERE org_id = $1 AND id > $2 ORDER BY id LIMIT $3"
# An expired invitation no longer stands in the way of a new one.
RETIRE = """
UPDATE invitations SET revoked_at = now() WHERE org_id = $1 AND lower(email) = lower($2) AND accepted_at IS NULL
    AND revoked_at IS NULL AND expires_at <= now()
"""
INSERT = """
INSERT INTO invitations (id, org_id, email, role, token_hash, invited_by, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING *
"""
IS_MEMBER = """
SELECT EXISTS (SELECT FROM org_members m JOIN users u ON u.id = m.user_id
               WHERE m.org_id = $1 AND lower(u.email) = lower($2) AND u.email_verified)
"""
GET = """
SELECT * FROM invitations
WHERE org_id = $1 AND id = $2 AND accepted_at IS NULL AND revoked_at IS NULL AND expires_at > now()
"""
REVOKE = """
UPDATE invitations SET revoked_at = now()
WHERE org_id = $1 AND id = $2 AND accepted_at IS NULL AND revoked_at IS NULL AND expires_at > now() RETURNING *
"""
FIND_BY_HASH = """
SELECT * FROM invitations
WHERE token_hash = $1 AND accepted_at IS NULL AND revoked_at IS NULL AND expires_at > now()
"""
ACCEPT = """
UPDATE invitations SET accepted_at = now()
WHERE org_id = $1 AND id = $2 AND accepted_at IS NULL AND revoked_at IS NULL AND expires_at > now() RETURNING *
"""


async def list_of_org(tx: Tx, org_id: OrgId, *, after: UUID, limit: int) -> list[Invitation]:
    return decode_all(Invitation, await tx.rows(LIST, org_id, after, limit))


async def insert(
    tx: Tx, invitation_id: InvitationId, org_id: OrgId, *, email: str, role: Role, token_hash: bytes,
    invited_by: UserId, expires_at: datetime,
) -> Invitation:  # fmt: skip
    await tx.run(RETIRE, org_id, email)
    with conflicts({"invitations_one_open": Code.INVITATION_EXISTS}):
        return _found(await tx.row(INSERT, invitation_id, org_id, email, role, token_hash, invited_by, expires_at))


async def is_member(tx: Tx, org_id: OrgId, email: str) -> bool:
    return bool(await tx.value(IS_MEMBER, org_id, email))


async def get_open(tx: Tx, org_id: OrgId, invitation_id: InvitationId) -> Invitation:
    return _found(await tx.row(GET, org_id, invitation_id))


async def revoke(tx: Tx, org_id: OrgId, invitation_id: InvitationId) -> Invitation:
    return _found(await tx.row(REVOKE, org_id, invitation_id))


async def by_token(tx: Tx, token_hash: bytes) -> Invitation:
    return _found(await tx.row(FIND_BY_HASH, token_hash))


async def accept(tx: Tx, org_id: OrgId, invitation_id: InvitationId) -> Invitation:
    return _found(await tx.row(ACCEPT, org_id, invitation_id))


def _found(row: Row | None) -> Invitation:
    if row is None:
        raise Missing(Code.INVITATION_MISSING, "There is no such invitation, or it has expired or was used.")
    return decode(Invitation, row)
