"""SQL of placement: free GPUs along their index, in windows that grow; the claim, which the database decides; and what
keeps each GPU from being had."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from gpuaas.domains.allocations.models import Hold
from gpuaas.domains.allocations.placement.models import Ask, Candidate, Group, Reason
from gpuaas.domains.allocations.states import HoldState
from gpuaas.domains.inventory.models import Sku
from gpuaas.infra.postgres.tx import Tx, decode_all
from gpuaas.kit.ids import AllocationId, HoldId, NodeId, OrgId, SkuId, SlotId

WINDOWS: tuple[int | None, ...] = (64, 512, 4_096, 32_768, None)
"""How many free GPUs are looked at, until something fits. The last one is all of them: what does not fit there did not
fit at that moment. Written into the statements, so that the plan of a small one is not that of a large one."""
# From the slots to their nodes, never the other way round, whatever the statistics say: hence OFFSET 0.
_FREE = """
WITH free AS (
    SELECT s.id, s.node_id, s.serial, s.gpu_index, s.numa,
           s.nvme_address IS NOT NULL AS nvme, s.fabric_address IS NOT NULL AS fabric
    FROM slots s WHERE s.sku_id = $1 AND s.present AND {free}
    ORDER BY s.sku_id {order}, s.node_id {order}, s.gpu_index {order} {limit}
), good AS (
    SELECT f.*, v.name, count(*) OVER (PARTITION BY f.node_id) AS on_node
    FROM free f CROSS JOIN LATERAL (
        SELECT v.name FROM sellable_nodes v
        WHERE v.id = f.node_id AND v.seen_at >= now() - make_interval(secs => $2) OFFSET 0) AS v
    WHERE NOT EXISTS (SELECT FROM slot_quarantines q WHERE q.slot_id = f.id AND q.ended_at IS NULL)
)
SELECT id AS slot_id, node_id, name AS node_name, serial, gpu_index, numa, nvme, fabric FROM good WHERE on_node >= $3
"""
_ORDERS = {False: "ASC", True: "DESC"}
FREE = {
    (window, whole): _FREE.format(free="NOT s.held", order=order, limit=f"LIMIT {window}" if window else "")
    for window in WINDOWS
    for whole, order in _ORDERS.items()
}
# What is sold from now: how many GPUs of each group there are, and how many of them are free.
GROUPS = """
SELECT s.node_id, s.numa, count(*) AS built, count(*) FILTER (WHERE NOT s.held) AS free
FROM slots s JOIN sellable_nodes v ON v.id = s.node_id
WHERE s.sku_id = $1 AND s.present AND v.seen_at >= now() - make_interval(secs => $2)
  AND (NOT $3 OR s.nvme_address IS NOT NULL) AND (NOT $4 OR s.fabric_address IS NOT NULL)
  AND NOT EXISTS (SELECT FROM slot_quarantines q WHERE q.slot_id = s.id AND q.ended_at IS NULL)
GROUP BY s.node_id, s.numa
"""
CLAIM = "SELECT * FROM slots_claim($1, $2, $3, $4, $5, $6)"
TURN = "SELECT pg_advisory_xact_lock(hashtextextended('placement:' || ($1::uuid)::text, 0))"
WHY_NOT = """
SELECT reason, count(*) AS gpus FROM (
    SELECT CASE
        WHEN n.state <> 'active' THEN 'out_of_service'
        WHEN h.node_id IS NULL OR h.liveness <> 'online' OR h.seen_at < now() - make_interval(secs => $2) THEN 'silent'
        WHEN n.quarantine_reason IS NOT NULL THEN 'quarantined'
        WHEN n.drained THEN 'drained'
        WHEN n.cordoned THEN 'cordoned'
        WHEN n.inspected_at IS NULL OR n.host_healthy IS NOT TRUE THEN 'unhealthy'
        WHEN n.differences <> '{}' THEN 'mismatch'
        WHEN EXISTS (SELECT FROM slot_quarantines q WHERE q.slot_id = s.id AND q.ended_at IS NULL) THEN 'quarantined'
        WHEN ($3 AND s.nvme_address IS NULL) OR ($4 AND s.fabric_address IS NULL) THEN 'unpaired'
        WHEN s.held THEN 'held'
        ELSE 'fragmented' END AS reason
    FROM slots s JOIN nodes n ON n.id = s.node_id LEFT JOIN node_heartbeats h ON h.node_id = n.id
    WHERE s.sku_id = $1 AND s.present AND n.state <> 'removed'
) AS each GROUP BY reason
"""
# Nodes that are built so that it would fit, whatever is the matter with them today.
LARGE_ENOUGH = """
SELECT count(DISTINCT node_id) FROM (
    SELECT s.node_id FROM slots s JOIN nodes n ON n.id = s.node_id
    WHERE s.sku_id = $1 AND s.present AND n.state <> 'removed'
      AND (NOT $3 OR s.nvme_address IS NOT NULL) AND (NOT $4 OR s.fabric_address IS NOT NULL)
    GROUP BY s.node_id, CASE WHEN $5 THEN 0 ELSE s.numa END HAVING count(*) >= $2
) AS groups
"""
EARLIEST_END = """
SELECT min(expires_at) FROM sku_leases($1, $2)
WHERE state IN ('active', 'stopping', 'stopped', 'starting') AND expires_at > now()
"""


async def free(tx: Tx, ask: Ask, window: int | None, *, lease_seconds: int) -> list[Candidate]:
    """The first so many free GPUs, from this request's end of the nodes; only those on nodes with enough of them."""
    return decode_all(Candidate, await tx.rows(FREE[window, ask.whole], ask.sku.id, lease_seconds, ask.gpu_count))


async def groups(tx: Tx, sku: Sku, *, lease_seconds: int) -> list[Group]:
    rows = await tx.rows(GROUPS, sku.id, lease_seconds, sku.needs_nvme, sku.needs_fabric)
    return decode_all(Group, rows)


async def claim(
    tx: Tx,
    allocation_id: AllocationId,
    org_id: OrgId,
    wanted: Sequence[SlotId],
    *,
    needed: int,
    lease_seconds: int,
    patient: bool,
) -> tuple[list[Hold], set[SlotId]]:
    """The holds, or none and those of the wanted that were lost to others."""
    rows = await tx.rows(CLAIM, allocation_id, org_id, list(wanted), needed, lease_seconds, patient)
    if not rows or rows[0]["hold_id"] is None:
        return [], set(wanted) - {row["slot_id"] for row in rows}
    place = {slot_id: number for number, slot_id in enumerate(wanted)}
    holds = [_hold(allocation_id, org_id, **row) for row in sorted(rows, key=lambda row: place[row["slot_id"]])]
    return holds, set()


def _hold(
    allocation_id: AllocationId,
    org_id: OrgId,
    *,
    slot_id: SlotId,
    hold_id: HoldId,
    node_id: NodeId,
    serial: str,
    held_at: datetime,
) -> Hold:
    return Hold(
        id=hold_id,
        org_id=org_id,
        allocation_id=allocation_id,
        slot_id=slot_id,
        node_id=node_id,
        serial=serial,
        state=HoldState.HELD,
        state_since=held_at,
        due_at=None,
        held_at=held_at,
        ended_at=None,
    )


async def take_turn(tx: Tx, sku_id: UUID) -> None:
    """Until the transaction ends, nobody else decides exactly about this SKU."""
    await tx.value(TURN, sku_id)


async def why_not(tx: Tx, ask: Ask, *, lease_seconds: int) -> dict[Reason, int]:
    rows = await tx.rows(WHY_NOT, ask.sku.id, lease_seconds, ask.sku.needs_nvme, ask.sku.needs_fabric)
    return {Reason(row["reason"]): row["gpus"] for row in rows}


async def large_enough(tx: Tx, ask: Ask) -> int:
    found: int = await tx.value(
        LARGE_ENOUGH, ask.sku.id, ask.gpu_count, ask.sku.needs_nvme, ask.sku.needs_fabric, ask.whole
    )
    return found


async def earliest_end(tx: Tx, sku_id: SkuId, *, longest: int) -> datetime | None:
    found: datetime | None = await tx.value(EARLIEST_END, sku_id, longest)
    return found
