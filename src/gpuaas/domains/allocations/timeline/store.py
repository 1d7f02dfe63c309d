"""SQL of timelines: our own moments, and those the allocation's nodes told of while they worked for it."""

from uuid import UUID

from gpuaas.domains.allocations.timeline.models import Moment, NodeTask
from gpuaas.infra.postgres.tx import Tx, decode_all
from gpuaas.kit.ids import AllocationId, OrgId, new_id

ADD = """
INSERT INTO allocation_timeline (id, org_id, allocation_id, phase, detail, actor, correlation_id)
VALUES ($1, $2, $3, $4, $5, $6, $7)
"""
# The first part is the tenant's wall: without the allocation in sight, nothing of its nodes is either.
MOMENTS = """
WITH mine AS (SELECT id FROM allocations WHERE id = $1)
SELECT at, phase, detail, source, actor, correlation_id FROM (SELECT * FROM (
    SELECT l.at, l.phase, l.detail, 'control' AS source, l.actor, l.correlation_id, 0 AS rank, l.id
    FROM allocation_timeline l JOIN mine ON mine.id = l.allocation_id
    UNION ALL
    SELECT p.told_at, t.type || '.' || p.name, p.detail, n.name, 'node', t.correlation_id, 1, t.id
    FROM mine JOIN tasks t ON t.subject_id = mine.id JOIN task_phases p ON p.task_id = t.id
    JOIN nodes n ON n.id = t.node_id
) AS told ORDER BY at DESC, rank DESC, id DESC LIMIT $2) AS latest
ORDER BY at, rank, id
"""
TASKS = """
SELECT t.id, n.name AS node_name, t.type, t.state, t.created_at, t.ended_at, t.reason, t.log
FROM allocations a JOIN tasks t ON t.subject_id = a.id JOIN nodes n ON n.id = t.node_id
WHERE a.id = $1 AND t.id > $2 ORDER BY t.id LIMIT $3
"""


async def add(
    tx: Tx, org_id: OrgId, allocation_id: AllocationId, *, phase: str, detail: str, actor: str, correlation_id: str
) -> None:
    await tx.run(ADD, new_id(), org_id, allocation_id, phase, detail, actor, correlation_id)


async def moments(tx: Tx, allocation_id: UUID, *, limit: int) -> list[Moment]:
    return decode_all(Moment, await tx.rows(MOMENTS, allocation_id, limit))


async def tasks(tx: Tx, allocation_id: UUID, *, after: UUID, limit: int) -> list[NodeTask]:
    return decode_all(NodeTask, await tx.rows(TASKS, allocation_id, after, limit))
