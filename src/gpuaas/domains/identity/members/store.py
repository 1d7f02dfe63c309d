"""SQL of members. Whoever changes them holds the organisation's lock (`orgs.service.lock`)."""

from collections.abc import Sequence
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.permissions import Role
from gpuaas.domains.identity.members.models import Member, Recipient
from gpuaas.infra.postgres.tx import Row, Tx, conflicts, decode, decode_all
from gpuaas.kit.errors import Missing
from gpuaas.kit.ids import OrgId, ProjectId, ServiceAccountId, UserId

LIST = """
SELECT u.id, u.email, u.name, m.role, m.created_at AS joined_at FROM org_members m JOIN users u ON u.id = m.user_id
WHERE m.org_id = $1 AND m.user_id > $2 ORDER BY m.user_id LIMIT $3
"""
GET = """
SELECT u.id, u.email, u.name, m.role, m.created_at AS joined_at FROM org_members m JOIN users u ON u.id = m.user_id
WHERE m.org_id = $1 AND m.user_id = $2
"""
RECIPIENTS = """
SELECT u.id, u.email, u.email_verified, u.name, u.last_login_at > now() - make_interval(mins => $4) AS seen
FROM org_members m JOIN users u ON u.id = m.user_id
WHERE m.org_id = $1 AND u.state = 'active' AND (m.role = ANY($2) OR m.user_id = $3) ORDER BY u.id LIMIT $5
"""
ADD = "INSERT INTO org_members (org_id, user_id, role) VALUES ($1, $2, $3)"
SET_ROLE = "UPDATE org_members SET role = $3 WHERE org_id = $1 AND user_id = $2"
REMOVE = "DELETE FROM org_members WHERE org_id = $1 AND user_id = $2"
OTHER_OWNERS = "SELECT EXISTS (SELECT FROM org_members WHERE org_id = $1 AND user_id <> $2 AND role = 'owner')"
DROP_INVITATIONS = """
UPDATE invitations SET revoked_at = now()
WHERE org_id = $1 AND invited_by = $2 AND accepted_at IS NULL AND revoked_at IS NULL
"""
PROJECT_LIST = """
SELECT u.id, u.email, u.name, m.role, m.created_at AS joined_at FROM project_members m JOIN users u ON u.id = m.user_id
WHERE m.project_id = $1 AND m.user_id > $2 ORDER BY m.user_id LIMIT $3
"""
PROJECT_GET = """
SELECT u.id, u.email, u.name, m.role, m.created_at AS joined_at FROM project_members m JOIN users u ON u.id = m.user_id
WHERE m.project_id = $1 AND m.user_id = $2
"""
PROJECT_SET = """
INSERT INTO project_members (org_id, project_id, user_id, role) VALUES ($1, $2, $3, $4)
ON CONFLICT (project_id, user_id) DO UPDATE SET role = excluded.role
"""
PROJECT_REMOVE = "DELETE FROM project_members WHERE project_id = $1 AND user_id = $2"


async def list_of_org(tx: Tx, org_id: OrgId, *, after: UUID, limit: int) -> list[Member]:
    return decode_all(Member, await tx.rows(LIST, org_id, after, limit))


async def recipients(
    tx: Tx, org_id: OrgId, roles: Sequence[Role], *, also: UUID | None, seen_minutes: int, limit: int
) -> list[Recipient]:
    """Those with one of the roles, and one more if he is a member; nobody who is disabled."""
    return decode_all(Recipient, await tx.rows(RECIPIENTS, org_id, list(roles), also, seen_minutes, limit))


async def get(tx: Tx, org_id: OrgId, user_id: UserId) -> Member:
    return _found(await tx.row(GET, org_id, user_id))


async def find(tx: Tx, org_id: OrgId, user_id: UserId) -> Member | None:
    row = await tx.row(GET, org_id, user_id)
    return None if row is None else decode(Member, row)


async def add(tx: Tx, org_id: OrgId, user_id: UserId, role: Role) -> None:
    with conflicts({"org_members_pkey": Code.MEMBER_EXISTS}):
        await tx.run(ADD, org_id, user_id, role)


async def set_role(tx: Tx, org_id: OrgId, user_id: UserId, role: Role) -> None:
    await tx.run(SET_ROLE, org_id, user_id, role)


async def remove(tx: Tx, org_id: OrgId, user_id: UserId) -> None:
    await tx.run(REMOVE, org_id, user_id)


async def has_other_owner(tx: Tx, org_id: OrgId, user_id: UserId) -> bool:
    return bool(await tx.value(OTHER_OWNERS, org_id, user_id))


async def drop_invitations(tx: Tx, org_id: OrgId, invited_by: UserId | ServiceAccountId) -> None:
    await tx.run(DROP_INVITATIONS, org_id, invited_by)


async def list_of_project(tx: Tx, project_id: ProjectId, *, after: UUID, limit: int) -> list[Member]:
    return decode_all(Member, await tx.rows(PROJECT_LIST, project_id, after, limit))


async def find_in_project(tx: Tx, project_id: ProjectId, user_id: UserId) -> Member | None:
    row = await tx.row(PROJECT_GET, project_id, user_id)
    return None if row is None else decode(Member, row)


async def set_in_project(tx: Tx, org_id: OrgId, project_id: ProjectId, user_id: UserId, role: Role) -> Member:
    absent = ("project_members_org_id_user_id_fkey", "project_members_user_id_fkey")
    with conflicts(dict.fromkeys(absent, Code.MEMBER_MISSING)):
        await tx.run(PROJECT_SET, org_id, project_id, user_id, role)
    return _found(await tx.row(PROJECT_GET, project_id, user_id))


async def remove_from_project(tx: Tx, project_id: ProjectId, user_id: UserId) -> None:
    await tx.run(PROJECT_REMOVE, project_id, user_id)


def _found(row: Row | None) -> Member:
    if row is None:
        raise Missing(Code.MEMBER_MISSING, "There is no such member here.")
    return decode(Member, row)
