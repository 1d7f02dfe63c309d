"""SQL of quotas: what is set, and what counts against it. Only slots that are held count, and allocations that live;
not those whose release failed: their tenant has given them back."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.domains.allocations.quotas.models import Quota, Used
from gpuaas.infra.postgres.tx import Tx, decode, decode_all
from gpuaas.kit.errors import Missing
from gpuaas.kit.ids import OrgId, ProjectId, new_id

# Two requests of one organisation are counted one after the other.
TURN = "SELECT pg_advisory_xact_lock(hashtextextended('quota:' || ($1::uuid)::text, 0))"
USED = """
SELECT held.org_gpus, held.project_gpus, live.org_allocations, live.project_allocations,
    (SELECT gpus FROM gpu_quotas WHERE org_id = $1 AND project_id IS NULL AND gpu_model = $3) AS org_limit,
    (SELECT gpus FROM gpu_quotas WHERE org_id = $1 AND project_id = $2 AND gpu_model = $3) AS project_limit
FROM (
    SELECT count(*) AS org_gpus, count(*) FILTER (WHERE a.project_id = $2) AS project_gpus
    FROM slot_holds h JOIN allocations a ON a.id = h.allocation_id JOIN skus k ON k.id = a.sku_id
    WHERE h.org_id = $1 AND h.ended_at IS NULL AND a.state <> 'release_failed' AND k.gpu_model = $3
) AS held, (
    SELECT count(*) AS org_allocations, count(*) FILTER (WHERE project_id = $2) AS project_allocations
    FROM allocations WHERE org_id = $1 AND state NOT IN ('released', 'failed', 'release_failed')
) AS live
"""
LIST = "SELECT * FROM gpu_quotas WHERE org_id = $1 ORDER BY gpu_model, project_id NULLS FIRST"
HELD = """
SELECT k.gpu_model, a.project_id, count(*) AS gpus
FROM slot_holds h JOIN allocations a ON a.id = h.allocation_id JOIN skus k ON k.id = a.sku_id
WHERE h.org_id = $1 AND h.ended_at IS NULL AND a.state <> 'release_failed' GROUP BY k.gpu_model, a.project_id
"""
SET = """
INSERT INTO gpu_quotas (id, org_id, project_id, gpu_model, gpus, set_by) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (org_id, project_id, gpu_model) DO UPDATE SET gpus = excluded.gpus, set_by = excluded.set_by, set_at = now()
RETURNING *
"""
UNSET = "DELETE FROM gpu_quotas WHERE org_id = $1 AND id = $2 RETURNING *"


async def take_turn(tx: Tx, org_id: OrgId) -> None:
    await tx.value(TURN, org_id)
    tx.let_go_early()


async def used(tx: Tx, org_id: OrgId, project_id: ProjectId, gpu_model: str) -> Used:
    row = await tx.row(USED, org_id, project_id, gpu_model)
    assert row is not None  # noqa: S101 # counts always return their row
    return decode(Used, row)


async def list_of_org(tx: Tx, org_id: OrgId) -> list[Quota]:
    return decode_all(Quota, await tx.rows(LIST, org_id))


async def held(tx: Tx, org_id: OrgId) -> dict[tuple[str, UUID], int]:
    """GPUs by model and project."""
    return {(row["gpu_model"], row["project_id"]): row["gpus"] for row in await tx.rows(HELD, org_id)}


async def put(tx: Tx, org_id: OrgId, project_id: ProjectId | None, *, gpu_model: str, gpus: int, set_by: str) -> Quota:
    row = await tx.row(SET, new_id(), org_id, project_id, gpu_model, gpus, set_by)
    assert row is not None  # noqa: S101 # it is inserted or updated
    return decode(Quota, row)


async def unset(tx: Tx, org_id: OrgId, quota_id: UUID) -> Quota:
    row = await tx.row(UNSET, org_id, quota_id)
    if row is None:
        raise Missing(Code.QUOTA_MISSING, "No such quota is set here.")
    return decode(Quota, row)
