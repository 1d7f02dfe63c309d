"""The verbs of stopping and starting: from active to stopped and back.

Always holds: what is stopped keeps its GPUs, its home and its lease; stopped for money it is not charged from the
request on, and charged again from the proof on with which it is active; stopped by its own people it is charged as
before, since its GPUs are kept for them. A stop is not taken back: one that no node has proven is tried again."""

from datetime import datetime

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.allocations import (
    AllocationStarted,
    AllocationStartFailed,
    AllocationStopFailed,
    AllocationStopped,
    AllocationStopping,
)
from gpuaas.contracts.http.allocations import StopReason
from gpuaas.contracts.http.flows import FlowKind
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.models import Allocation
from gpuaas.domains.allocations.states import S
from gpuaas.domains.allocations.stopping import store
from gpuaas.domains.allocations.timeline.service import timeline_add
from gpuaas.domains.billing.meters import service as meters
from gpuaas.domains.runs import service as runs
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.errors import Conflict
from gpuaas.kit.ids import AllocationId

STOPPING_SECONDS = 20 * 60.0
STARTING_SECONDS = 35 * 60.0
"""Longer than the flows' own deadlines together."""
AGAIN_SECONDS = 300.0
"""What failed is tried again after that."""
STOP_FAILED = "stop_failed"
"""Nobody has proven that its login is closed."""
START_FAILED = "start_failed"
METER_REASON = "stopped"
BALANCE_EMPTY = "balance_empty"
BUDGET_SPENT = "budget_spent"
BY = "system:stopping"
_WORDS = {
    StopReason.USER: "stopped by {by}; its GPUs are kept, and charged",
    StopReason.BALANCE: "the balance is empty; nothing is charged while it is stopped",
    StopReason.BUDGET: "the project's budget is spent; nothing is charged while it is stopped",
}


# stopping ------------------------------------------------------------------------------------------------------------
async def allocation_stop(
    tx: Tx, allocation_id: AllocationId, *, reason: StopReason, by: str, due_at: datetime | None = None, note: str = ""
) -> Allocation:
    """Close its login and end what runs; its GPUs and its home are kept. `due_at`: it is released then, if it was not
    started; None: with its lease."""
    allocation = await allocations.allocation_lock(tx, allocation_id)
    if allocation.state is not S.ACTIVE:
        raise Conflict(Code.ALLOCATION_NOT_ACTIVE, f"The allocation is {allocation.state}: only an active one stops.")
    await store.stopping(tx, allocation.id, reason=reason, by=by, due_at=due_at)
    allocation = await allocations.allocation_move(tx, allocation.id, to=S.STOPPING, due_seconds=STOPPING_SECONDS)
    if allocation.stopped_for_money:
        await meters.meter_pause(tx, allocation.id, at=allocation.state_since, reason=METER_REASON)
    words = _WORDS[reason].format(by=by)
    await timeline_add(tx, allocation, "stop", f"{words}: {note}" if note else words)
    tx.emit(
        AllocationStopping(
            allocation_id=allocation.id,
            project_id=allocation.project_id,
            requested_at=allocation.state_since,
            reason=reason,
        ),
        subject_id=allocation.id,
        org_id=allocation.org_id,
    )
    await runs.run_start(tx, FlowKind.ALLOCATION_STOP, allocation.id, org_id=allocation.org_id)
    return allocation


async def stop_again(tx: Tx, allocation: Allocation) -> Allocation:
    """No node has proven that its login is closed: they are asked again."""
    allocation = await allocations.allocation_move(tx, allocation.id, to=S.STOPPING, due_seconds=STOPPING_SECONDS)
    await timeline_add(tx, allocation, "stop", "its nodes are asked again")
    await runs.run_start(tx, FlowKind.ALLOCATION_STOP, allocation.id, org_id=allocation.org_id)
    return allocation


async def allocation_stopped(tx: Tx, allocation: Allocation) -> Allocation:
    """Its nodes have proven that nobody can log in and nothing runs."""
    await allocations.allocation_move(tx, allocation.id, to=S.STOPPED)
    allocation = await store.stopped(tx, allocation.id)
    await timeline_add(tx, allocation, "stopped", "nobody can log in and nothing runs; its home and GPUs are kept")
    tx.emit(
        AllocationStopped(
            allocation_id=allocation.id,
            project_id=allocation.project_id,
            reason=StopReason(allocation.stop_reason),
            release_at=allocation.due_at,
        ),
        subject_id=allocation.id,
        org_id=allocation.org_id,
    )
    return allocation


async def stop_failed(tx: Tx, allocation: Allocation, *, reason: str) -> Allocation:
    """It counts as stopped, and somebody may still be logged in: its nodes are asked again until they prove it."""
    await allocations.allocation_move(tx, allocation.id, to=S.STOPPED)
    allocation = await store.stopped(tx, allocation.id, code=STOP_FAILED, reason=reason, again_seconds=AGAIN_SECONDS)
    await timeline_add(tx, allocation, "stop_failed", reason)
    tx.emit(
        AllocationStopFailed(allocation_id=allocation.id, project_id=allocation.project_id, reason=reason),
        subject_id=allocation.id,
        org_id=allocation.org_id,
    )
    return allocation


# starting ------------------------------------------------------------------------------------------------------------
async def allocation_start(tx: Tx, allocation_id: AllocationId, *, by: str) -> Allocation:
    """Open its login again, and prove its GPUs; then it is active. Whether it may is asked before."""
    allocation = await allocations.allocation_lock(tx, allocation_id)
    if allocation.state is not S.STOPPED:
        raise Conflict(Code.ALLOCATION_NOT_STOPPED, f"The allocation is {allocation.state}: only a stopped one starts.")
    allocation = await allocations.allocation_move(tx, allocation.id, to=S.STARTING, due_seconds=STARTING_SECONDS)
    await timeline_add(tx, allocation, "start", f"started by {by}")
    await runs.run_start(tx, FlowKind.ALLOCATION_START, allocation.id, org_id=allocation.org_id)
    return allocation


async def allocation_started(tx: Tx, allocation: Allocation) -> Allocation:
    """Its GPUs are proven usable again: from now on it is charged again."""
    await allocations.allocation_move(tx, allocation.id, to=S.ACTIVE)
    allocation = await store.started(tx, allocation.id)
    await meters.meter_resume(tx, allocation.id, at=allocation.state_since)
    await timeline_add(tx, allocation, "started", "the GPUs are proven usable, and its home is as it was")
    tx.emit(
        AllocationStarted(
            allocation_id=allocation.id, project_id=allocation.project_id, started_at=allocation.state_since
        ),
        subject_id=allocation.id,
        org_id=allocation.org_id,
    )
    return allocation


async def start_failed(tx: Tx, allocation: Allocation, *, reason: str, closed: bool) -> Allocation:
    """It is stopped as before. `closed`: its nodes have proven so, or were never asked to open it."""
    await allocations.allocation_move(tx, allocation.id, to=S.STOPPED)
    code = START_FAILED if closed else STOP_FAILED
    allocation = await store.stopped(tx, allocation.id, code=code, reason=reason, again_seconds=AGAIN_SECONDS)
    await timeline_add(tx, allocation, "start_failed", reason)
    tx.emit(
        AllocationStartFailed(allocation_id=allocation.id, project_id=allocation.project_id, reason=reason),
        subject_id=allocation.id,
        org_id=allocation.org_id,
    )
    return allocation


async def stopped_for_too_long(tx: Tx, allocation: Allocation) -> None:
    """Its time is over: it is released."""
    reason = {StopReason.USER: "lease_expired", StopReason.BUDGET: BUDGET_SPENT}.get(
        StopReason(allocation.stop_reason), BALANCE_EMPTY
    )
    await allocations.release_for(tx, allocation, reason=reason, by=BY)
