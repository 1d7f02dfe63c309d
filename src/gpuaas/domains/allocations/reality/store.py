"""SQL of the comparison of what agents observe with the books."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.domains.allocations.reality.compare import Difference
from gpuaas.domains.allocations.reality.models import Found, HeldThere, Known, Orphan, ShownOrphan, Told
from gpuaas.infra.postgres.tx import Tx, decode, decode_all
from gpuaas.kit.errors import Missing
from gpuaas.kit.ids import NodeId, OrphanId, new_id

TOLD = """
SELECT n.id AS node_id, h.seen_at, h.accounts, h.leases, h.usage
FROM nodes n JOIN node_heartbeats h ON h.node_id = n.id
WHERE n.state = 'active' AND h.liveness = 'online' AND h.seen_at >= now() - make_interval(secs => $1) AND n.id > $2
ORDER BY n.id LIMIT $3
"""
HELD_THERE = """
SELECT h.node_id, a.id AS allocation_id, a.state, a.state_since AS changed_at, array_agg(h.serial) AS serials
FROM slot_holds h JOIN allocations a ON a.id = h.allocation_id
WHERE h.node_id = ANY($1) AND h.ended_at IS NULL GROUP BY h.node_id, a.id
"""
KNOWN = """
SELECT DISTINCT a.id AS allocation_id, a.state, a.state_since AS changed_at
FROM unnest($1::uuid[], $2::uuid[]) AS wanted (first, last)
JOIN allocations a ON a.id BETWEEN wanted.first AND wanted.last
"""
# Seen again, it is told of, once: what one observation shows may be on its way to where it belongs.
FOUND = """
INSERT INTO orphans AS o (id, node_id, kind, name, allocation_id, detail)
SELECT f.id, f.node_id, f.kind, f.name, f.allocation_id, f.detail
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::uuid[], $6::text[])
    AS f (id, node_id, kind, name, allocation_id, detail)
ORDER BY f.node_id, f.kind, f.name
ON CONFLICT (node_id, kind, name) WHERE ended_at IS NULL DO UPDATE SET last_seen_at = now(),
    allocation_id = excluded.allocation_id, detail = excluded.detail,
    told_at = CASE WHEN o.told_at IS NULL AND o.first_seen_at <= now() - make_interval(secs => $7) THEN now()
                   ELSE o.told_at END
RETURNING o.*, o.told_at IS NOT DISTINCT FROM now() AS tell
"""
GONE = """
UPDATE orphans o SET ended_at = now()
WHERE o.ended_at IS NULL AND o.node_id = ANY($1) AND NOT o.id = ANY($2) RETURNING o.*
"""
GONE_WITH_NODE = """
UPDATE orphans o SET ended_at = now() FROM nodes n
WHERE n.id = o.node_id AND n.state = 'removed' AND o.ended_at IS NULL RETURNING o.*
"""
LOCK = "SELECT * FROM orphans WHERE id = $1 AND ended_at IS NULL FOR NO KEY UPDATE"
RECLAIMING = "UPDATE orphans SET task_id = $2 WHERE id = $1 RETURNING *"
_SHOWN = """
SELECT o.id, o.node_id, n.name AS node_name, o.kind, o.name, o.allocation_id, o.detail, o.first_seen_at, o.last_seen_at,
    o.task_id
FROM orphans o JOIN nodes n ON n.id = o.node_id
"""
LIST = f"{_SHOWN} WHERE o.ended_at IS NULL AND o.id < $1 ORDER BY o.id DESC LIMIT $2"
SHOW = f"{_SHOWN} WHERE o.id = $1"
PRUNE = """
DELETE FROM orphans WHERE id IN (
    SELECT id FROM orphans WHERE ended_at < $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)
"""
OPEN_COUNT = "SELECT count(*) FROM orphans WHERE ended_at IS NULL AND told_at IS NOT NULL"


async def told(tx: Tx, *, lease_seconds: int, after: UUID, limit: int) -> list[Told]:
    return decode_all(Told, await tx.rows(TOLD, lease_seconds, after, limit))


async def held_there(tx: Tx, nodes: Sequence[NodeId]) -> list[HeldThere]:
    return decode_all(HeldThere, await tx.rows(HELD_THERE, list(nodes)))


async def known(tx: Tx, ranges: Sequence[tuple[UUID, UUID]]) -> list[Known]:
    """Allocations whose ids are in one of the ranges."""
    rows = await tx.rows(KNOWN, [first for first, _ in ranges], [last for _, last in ranges])
    return decode_all(Known, rows)


async def found(tx: Tx, differences: Sequence[Difference], *, old_seconds: float) -> list[Found]:
    """Each as it is noted now."""
    rows = await tx.rows(
        FOUND,
        [new_id() for _ in differences],
        [one.node_id for one in differences],
        [one.kind for one in differences],
        [one.name for one in differences],
        [one.allocation_id for one in differences],
        [one.detail for one in differences],
        old_seconds,
    )
    return decode_all(Found, rows)


async def gone(tx: Tx, nodes: Sequence[NodeId], seen: Sequence[OrphanId]) -> list[Orphan]:
    """Of these nodes, those that were not seen any more."""
    return decode_all(Orphan, await tx.rows(GONE, list(nodes), list(seen)))


async def gone_with_node(tx: Tx) -> list[Orphan]:
    return decode_all(Orphan, await tx.rows(GONE_WITH_NODE))


async def lock(tx: Tx, orphan_id: UUID) -> Orphan:
    row = await tx.row(LOCK, orphan_id)
    if row is None:
        raise Missing(Code.ORPHAN_MISSING, "There is no such orphan, or it was reclaimed.")
    return decode(Orphan, row)


async def reclaiming(tx: Tx, orphan_id: OrphanId, task_id: UUID) -> None:
    await tx.run(RECLAIMING, orphan_id, task_id)


async def list_open(tx: Tx, *, before: UUID, limit: int) -> list[ShownOrphan]:
    return decode_all(ShownOrphan, await tx.rows(LIST, before, limit))


async def show(tx: Tx, orphan_id: OrphanId) -> ShownOrphan:
    row = await tx.row(SHOW, orphan_id)
    if row is None:
        raise Missing(Code.ORPHAN_MISSING, "There is no such orphan, or it was reclaimed.")
    return decode(ShownOrphan, row)


async def open_count(tx: Tx) -> int:
    return int(await tx.value(OPEN_COUNT))


async def prune(tx: Tx, *, before: datetime, limit: int) -> int:
    return await tx.run(PRUNE, before, limit)
