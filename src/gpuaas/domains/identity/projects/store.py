"""SQL of projects."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.orgs import ProjectCreate
from gpuaas.domains.identity.projects.models import Project
from gpuaas.infra.postgres.tx import Row, Tx, conflicts, decode, decode_all
from gpuaas.kit.errors import Missing
from gpuaas.kit.ids import OrgId, ProjectId

_NAMES = {"projects_one_name": Code.PROJECT_NAME_TAKEN}
_STAYS = {"projects_without_allocations": Code.PROJECT_IN_USE}

LIST = "SELECT * FROM projects WHERE org_id = $1 AND deleted_at IS NULL AND id > $2 ORDER BY id LIMIT $3"
GET = "SELECT * FROM projects WHERE id = $1 AND deleted_at IS NULL"
# The lock on the organisation makes a deletion of it wait for us, and us see it deleted if it came first.
INSERT = """
INSERT INTO projects (id, org_id, name, title, cost_centre)
SELECT $1, o.id, $3, $4, $6 FROM orgs o
WHERE o.id = $2 AND o.deleted_at IS NULL
  AND $5 > (SELECT count(*) FROM
            (SELECT FROM projects p WHERE p.org_id = $2 AND p.deleted_at IS NULL LIMIT $5) AS found)
FOR KEY SHARE
RETURNING *
"""
UPDATE = """
UPDATE projects SET name = coalesce($2, name), title = coalesce($3, title), cost_centre = coalesce($4, cost_centre)
WHERE id = $1 AND deleted_at IS NULL RETURNING *
"""
DELETE = "UPDATE projects SET deleted_at = now() WHERE id = $1 AND deleted_at IS NULL RETURNING *"
LOCK = "SELECT * FROM projects WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE"


async def list_of_org(tx: Tx, org_id: OrgId, *, after: UUID, limit: int) -> list[Project]:
    return decode_all(Project, await tx.rows(LIST, org_id, after, limit))


async def get(tx: Tx, project_id: ProjectId) -> Project:
    return _found(await tx.row(GET, project_id))


async def insert(tx: Tx, project_id: ProjectId, org_id: OrgId, wanted: ProjectCreate, *, below: int) -> Project | None:
    """None when the organisation has `below` projects or more, or is gone."""
    with conflicts(_NAMES):
        title, cost_centre = wanted.title or wanted.name, wanted.cost_centre or ""
        row = await tx.row(INSERT, project_id, org_id, wanted.name, title, max(below, 0), cost_centre)
    return None if row is None else decode(Project, row)


async def update(
    tx: Tx, project_id: ProjectId, *, name: str | None, title: str | None, cost_centre: str | None
) -> Project:
    """What is None stays."""
    with conflicts(_NAMES):
        return _found(await tx.row(UPDATE, project_id, name, title, cost_centre))


async def delete(tx: Tx, project_id: ProjectId) -> Project:
    with conflicts(_STAYS):
        return _found(await tx.row(DELETE, project_id))


async def lock(tx: Tx, project_id: ProjectId) -> Project:
    return _found(await tx.row(LOCK, project_id))


def _found(row: Row | None) -> Project:
    if row is None:
        raise Missing(Code.PROJECT_MISSING, "There is no such project, or you are not in its organisation.")
    return decode(Project, row)
