"""SQL of stopping. States are moved by the one statement of allocations; here is what is noted beside."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from gpuaas.domains.allocations.models import Allocation
from gpuaas.domains.billing.standing.models import Place
from gpuaas.infra.postgres.tx import Row, Tx, decode, decode_all
from gpuaas.kit.ids import AllocationId

STOPPING = """
UPDATE allocations SET stop_reason = $2, stopped_by = $3, stop_requested_at = now(), stop_due_at = $4,
    stop_unpaid = false, stop_after = NULL, idle_since = NULL, idle_warned_at = NULL, reclaim_at = NULL,
    failure_code = '', failure = ''
WHERE id = $1 RETURNING *
"""
STOPPED = """
UPDATE allocations SET due_at = coalesce(stop_due_at, expires_at), failure_code = $2, failure = $3,
    stop_after = now() + make_interval(secs => $4::float8)
WHERE id = $1 RETURNING *
"""
STARTED = """
UPDATE allocations SET stop_reason = '', stopped_by = '', stop_requested_at = NULL, stop_due_at = NULL,
    stop_unpaid = false, stop_after = NULL, failure_code = '', failure = ''
WHERE id = $1 RETURNING *
"""
NOW = "SELECT now()"
UNPAID = "UPDATE allocations SET stop_unpaid = $2, version = version + 1 WHERE id = $1 RETURNING *"
DUE = """
UPDATE allocations SET stop_due_at = $2, due_at = coalesce($2, expires_at), version = version + 1
WHERE id = $1 RETURNING *
"""
OTHERWISE = """
UPDATE allocations SET stop_reason = $2, stop_due_at = $3, due_at = $3, version = version + 1 WHERE id = $1 RETURNING *
"""
# What an organisation has that costs something in a currency, locked in one order before anything is done with any.
_OF_PLACE = """
SELECT a.* FROM allocations a JOIN sku_prices p ON p.id = a.price_id
WHERE a.org_id = $1 AND p.currency = $2 AND p.micros_per_gpu_hour > 0
"""
_NODES_ANSWER = """
NOT EXISTS (SELECT FROM slot_holds h JOIN node_heartbeats b ON b.node_id = h.node_id
            WHERE h.allocation_id = a.id AND h.ended_at IS NULL AND b.liveness <> 'online')
"""
_LOCKED = "ORDER BY a.id LIMIT $3 FOR NO KEY UPDATE OF a"
TO_STOP = f"""
{_OF_PLACE} AND (a.state = 'active' OR (a.state = 'stopped' AND a.stop_reason = 'user' AND NOT a.stop_unpaid)) {_LOCKED}
"""
TO_RELEASE = f"{_OF_PLACE} AND a.state IN ('active', 'stopped') {_LOCKED}"
TO_START = f"""
{_OF_PLACE} AND a.state = 'stopped' AND (a.stop_unpaid OR (a.stop_reason = 'balance'
    AND (a.stop_after IS NULL OR a.stop_after <= now()) AND {_NODES_ANSWER})) {_LOCKED}
"""
TO_STOP_IN = """
SELECT a.* FROM allocations a JOIN sku_prices p ON p.id = a.price_id
WHERE a.project_id = $1 AND p.currency = $2 AND p.micros_per_gpu_hour > 0 AND a.state = 'active'
ORDER BY a.id LIMIT $3 FOR NO KEY UPDATE OF a
"""
_UNPROVEN = """
SELECT a.* FROM allocations a
WHERE a.state = 'stopped' AND a.failure_code = 'stop_failed' AND a.stop_after <= now()
"""
TO_STOP_AGAIN = f"{_UNPROVEN} AND {_NODES_ANSWER} ORDER BY a.id LIMIT $1 FOR NO KEY UPDATE OF a SKIP LOCKED"
# Two looks by an index each: not at everything that is active.
CONCERNED = """
SELECT a.org_id, p.currency FROM allocations a JOIN sku_prices p ON p.id = a.price_id
WHERE a.state = 'stopped' AND (a.stop_reason = 'balance' OR a.stop_unpaid)
UNION
SELECT w.org_id, w.currency FROM unnest($1::uuid[], $2::text[]) AS w (org_id, currency)
WHERE EXISTS (SELECT FROM allocations a WHERE a.org_id = w.org_id AND a.state IN ('active', 'stopped')
              AND a.state NOT IN ('released', 'failed'))
ORDER BY 1, 2
"""


async def stopping(tx: Tx, allocation_id: AllocationId, *, reason: str, by: str, due_at: datetime | None) -> Allocation:
    return _one(await tx.row(STOPPING, allocation_id, reason, by, due_at))


async def stopped(
    tx: Tx, allocation_id: AllocationId, *, code: str = "", reason: str = "", again_seconds: float | None = None
) -> Allocation:
    """With what failed, and when that is tried again."""
    return _one(await tx.row(STOPPED, allocation_id, code, reason, again_seconds))


async def started(tx: Tx, allocation_id: AllocationId) -> Allocation:
    return _one(await tx.row(STARTED, allocation_id))


async def now(tx: Tx) -> datetime:
    found: datetime = await tx.value(NOW)
    return found


async def unpaid(tx: Tx, allocation_id: AllocationId, *, unpaid: bool) -> Allocation:
    return _one(await tx.row(UNPAID, allocation_id, unpaid))


async def due(tx: Tx, allocation_id: AllocationId, at: datetime | None) -> Allocation:
    return _one(await tx.row(DUE, allocation_id, at))


async def otherwise(tx: Tx, allocation_id: AllocationId, *, reason: str, due_at: datetime) -> Allocation:
    """Stopped it stays, for another reason."""
    return _one(await tx.row(OTHERWISE, allocation_id, reason, due_at))


# those to whom something is to be done, each locked ------------------------------------------------------------------
async def to_stop(tx: Tx, place: Place, *, limit: int) -> list[Allocation]:
    return decode_all(Allocation, await tx.rows(TO_STOP, place.org_id, place.currency, limit))


async def to_release(tx: Tx, place: Place, *, limit: int) -> list[Allocation]:
    return decode_all(Allocation, await tx.rows(TO_RELEASE, place.org_id, place.currency, limit))


async def to_start(tx: Tx, place: Place, *, limit: int) -> list[Allocation]:
    """Those whose nodes answer, and those that only are charged again."""
    return decode_all(Allocation, await tx.rows(TO_START, place.org_id, place.currency, limit))


async def to_stop_in(tx: Tx, project_id: UUID, currency: str, *, limit: int) -> list[Allocation]:
    return decode_all(Allocation, await tx.rows(TO_STOP_IN, project_id, currency, limit))


async def to_stop_again(tx: Tx, *, limit: int) -> list[Allocation]:
    return decode_all(Allocation, await tx.rows(TO_STOP_AGAIN, limit))


async def concerned(tx: Tx, places: Sequence[Place]) -> list[Place]:
    """Of these, those who have something; and those who have something that is stopped for money."""
    orgs, currencies = [place.org_id for place in places], [place.currency for place in places]
    return decode_all(Place, await tx.rows(CONCERNED, orgs, currencies))


def _one(row: Row | None) -> Allocation:
    assert row is not None  # noqa: S101 # whoever writes this holds the row
    return decode(Allocation, row)
