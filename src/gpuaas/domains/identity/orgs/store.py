"""SQL of organisations. A deleted organisation keeps its row and gives its name free."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.domains.identity.orgs.models import Org
from gpuaas.infra.postgres.tx import Row, Tx, conflicts, decode, decode_all
from gpuaas.kit.errors import Missing
from gpuaas.kit.ids import OrgId, UserId

_NAMES = {"orgs_one_name": Code.ORG_NAME_TAKEN}
_STAYS = {"orgs_without_money": Code.ORG_HAS_MONEY}

MINE = """
SELECT o.*, m.role FROM org_members m JOIN orgs o ON o.id = m.org_id
WHERE m.user_id = $1 AND o.deleted_at IS NULL AND o.id > $2 ORDER BY o.id LIMIT $3
"""
ALL = """
SELECT o.*, NULL AS role FROM orgs o
WHERE o.deleted_at IS NULL AND o.id > $1 AND ($2::text IS NULL OR o.name = $2) ORDER BY o.id LIMIT $3
"""
GET = """
SELECT o.*, m.role FROM orgs o LEFT JOIN org_members m ON m.org_id = o.id AND m.user_id = $2
WHERE o.id = $1 AND o.deleted_at IS NULL
"""
INSERT = "INSERT INTO orgs (id, name, title, personal_of) VALUES ($1, $2, $3, $4) RETURNING *"
INSERT_IF_FREE = """
INSERT INTO orgs (id, name, title, personal_of) VALUES ($1, $2, $3, $4)
ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING RETURNING *
"""
# Two organisations created at once are counted one after the other.
LOCK_USER = "SELECT id FROM users WHERE id = $1 FOR NO KEY UPDATE"
COUNT_OWNED = """
SELECT count(*) FROM org_members m JOIN orgs o ON o.id = m.org_id
WHERE m.user_id = $1 AND m.role = 'owner' AND o.deleted_at IS NULL AND o.personal_of IS NULL
"""
OWN = "INSERT INTO org_members (org_id, user_id, role) VALUES ($1, $2, 'owner')"
UPDATE = """
UPDATE orgs SET name = coalesce($2, name), title = coalesce($3, title)
WHERE id = $1 AND deleted_at IS NULL RETURNING *
"""
# What an organisation has changes one at a time: its members, and how many projects and service accounts there are.
LOCK = "SELECT * FROM orgs WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE"
# Waits for projects being created, and makes those that come later find the organisation deleted.
LOCK_WHOLE = "SELECT * FROM orgs WHERE id = $1 AND deleted_at IS NULL FOR UPDATE"
HAS_PROJECTS = "SELECT EXISTS (SELECT FROM projects WHERE org_id = $1 AND deleted_at IS NULL)"
DELETE = "UPDATE orgs SET deleted_at = now() WHERE id = $1"


async def list_of_user(tx: Tx, user_id: UserId, *, after: UUID, limit: int) -> list[Org]:
    return decode_all(Org, await tx.rows(MINE, user_id, after, limit))


async def list_all(tx: Tx, *, name: str | None, after: UUID, limit: int) -> list[Org]:
    return decode_all(Org, await tx.rows(ALL, after, name, limit))


async def get(tx: Tx, org_id: OrgId, asker: UUID | None) -> Org:
    return _found(await tx.row(GET, org_id, asker))


async def insert(tx: Tx, org_id: OrgId, *, name: str, title: str) -> Org:
    with conflicts(_NAMES):
        return _found(await tx.row(INSERT, org_id, name, title, None))


async def insert_personal(tx: Tx, org_id: OrgId, *, name: str, title: str, user_id: UserId) -> Org | None:
    """None when the name is taken: the caller tries another one."""
    row = await tx.row(INSERT_IF_FREE, org_id, name, title, user_id)
    return None if row is None else decode(Org, row)


async def count_owned_locked(tx: Tx, user_id: UserId) -> int:
    """Beside the personal one. What others own and invited him to does not count: it is not his to delete."""
    await tx.run(LOCK_USER, user_id)
    return int(await tx.value(COUNT_OWNED, user_id))


async def own(tx: Tx, org_id: OrgId, user_id: UserId) -> None:
    await tx.run(OWN, org_id, user_id)


async def update(tx: Tx, org_id: OrgId, *, name: str | None, title: str | None) -> Org:
    with conflicts(_NAMES):
        return _found(await tx.row(UPDATE, org_id, name, title))


async def lock(tx: Tx, org_id: OrgId) -> Org:
    return _found(await tx.row(LOCK, org_id))


async def lock_whole(tx: Tx, org_id: OrgId) -> Org:
    return _found(await tx.row(LOCK_WHOLE, org_id))


async def has_projects(tx: Tx, org_id: OrgId) -> bool:
    return bool(await tx.value(HAS_PROJECTS, org_id))


async def delete(tx: Tx, org_id: OrgId) -> None:
    with conflicts(_STAYS):
        await tx.run(DELETE, org_id)


def _found(row: Row | None) -> Org:
    if row is None:
        raise Missing(Code.ORG_MISSING, "There is no such organisation, or you are not in it.")
    return decode(Org, row)
