"""SQL of stopping. States are moved by the one statement of allocations; here is what is noted beside."""

from datetime import datetime

from gpuaas.domains.allocations.models import Allocation
from gpuaas.infra.postgres.tx import Row, Tx, decode
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
UNPAID = "UPDATE allocations SET stop_unpaid = $2, version = version + 1 WHERE id = $1 RETURNING *"
DUE = "UPDATE allocations SET stop_due_at = $2, due_at = $2, version = version + 1 WHERE id = $1 RETURNING *"


async def stopping(tx: Tx, allocation_id: AllocationId, *, reason: str, by: str, due_at: datetime | None) -> Allocation:
    return _one(await tx.row(STOPPING, allocation_id, reason, by, due_at))


async def stopped(
    tx: Tx, allocation_id: AllocationId, *, code: str = "", reason: str = "", again_seconds: float | None = None
) -> Allocation:
    """With what failed, and when that is tried again."""
    return _one(await tx.row(STOPPED, allocation_id, code, reason, again_seconds))


async def started(tx: Tx, allocation_id: AllocationId) -> Allocation:
    return _one(await tx.row(STARTED, allocation_id))


async def unpaid(tx: Tx, allocation_id: AllocationId, *, unpaid: bool) -> Allocation:
    return _one(await tx.row(UNPAID, allocation_id, unpaid))


async def due(tx: Tx, allocation_id: AllocationId, at: datetime | None) -> Allocation:
    return _one(await tx.row(DUE, allocation_id, at))


def _one(row: Row | None) -> Allocation:
    assert row is not None  # noqa: S101 # whoever writes this holds the row
    return decode(Allocation, row)
