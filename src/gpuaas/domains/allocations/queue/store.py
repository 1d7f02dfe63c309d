"""SQL of the queue. Who waits before a tenant is told by functions of the database, without anybody's name."""

from uuid import UUID

from gpuaas.domains.allocations.queue.models import Lease, Named, Waiting
from gpuaas.infra.postgres.tx import Tx, decode_all
from gpuaas.kit.ids import AllocationId, SkuId

SOMEBODY_WAITS = "SELECT queue_waits($1)"
LINE = "SELECT * FROM queue_line($1, $2, $3)"
LEASES = "SELECT * FROM sku_leases($1, $2)"
SKUS = "SELECT DISTINCT sku_id FROM allocations WHERE state = 'requested' ORDER BY sku_id LIMIT $1"
NAMED = """
SELECT a.id, a.org_id, a.project_id, a.name, a.sku_id, k.name AS sku_name
FROM allocations a JOIN skus k ON k.id = a.sku_id
WHERE a.state = 'requested' AND ($1::uuid IS NULL OR a.project_id = $1) ORDER BY a.sku_id, a.id LIMIT $2
"""
TURN = "SELECT pg_try_advisory_xact_lock(hashtextextended('queue:' || ($1::uuid)::text, 0))"
PRIORITY = "UPDATE allocations SET priority = $2, version = version + 1 WHERE id = $1 AND state = 'requested'"


async def somebody_waits(tx: Tx, sku_id: SkuId) -> bool:
    return bool(await tx.value(SOMEBODY_WAITS, sku_id))


async def line(tx: Tx, sku_id: SkuId, *, half_life_seconds: float, longest: int) -> list[Waiting]:
    return decode_all(Waiting, await tx.rows(LINE, sku_id, half_life_seconds, longest))


async def leases(tx: Tx, sku_id: SkuId, *, longest: int) -> list[Lease]:
    return decode_all(Lease, await tx.rows(LEASES, sku_id, longest))


async def skus(tx: Tx, *, limit: int) -> list[SkuId]:
    """For which somebody waits whom this transaction sees."""
    return [row["sku_id"] for row in await tx.rows(SKUS, limit)]


async def named(tx: Tx, *, project_id: UUID | None, limit: int) -> list[Named]:
    return decode_all(Named, await tx.rows(NAMED, project_id, limit))


async def take_turn(tx: Tx, sku_id: SkuId) -> bool:
    """False: another worker serves this SKU at the moment."""
    return bool(await tx.value(TURN, sku_id))


async def set_priority(tx: Tx, allocation_id: AllocationId, priority: int) -> bool:
    return await tx.run(PRIORITY, allocation_id, priority) > 0
