"""The verbs of stopping and starting: from active to stopped and back.

Always holds: what is stopped keeps its GPUs, its home and its lease; stopped for money it is not charged from the
request on, and charged again from the proof on with which it is active; stopped by its own people it is charged as
before, since its GPUs are kept for them. A stop is not taken back: one that no node has proven is tried again."""

from datetime import datetime, timedelta

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
from gpuaas.contracts.http.standing import Rung
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.models import Allocation
from gpuaas.domains.allocations.states import S
from gpuaas.domains.allocations.stopping import store
from gpuaas.domains.allocations.timeline.service import timeline_add
from gpuaas.domains.billing.budgets import service as budgets
from gpuaas.domains.billing.budgets.models import Budget
from gpuaas.domains.billing.meters import service as meters
from gpuaas.domains.billing.meters.models import Cause
from gpuaas.domains.billing.standing import service as standings
from gpuaas.domains.billing.standing.models import Place
from gpuaas.domains.runs import service as runs
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.errors import Conflict
from gpuaas.kit.ids import AllocationId, OrgId
from gpuaas.ports.policy import PolicyReader

STOPPING_SECONDS = 20 * 60.0
STARTING_SECONDS = 35 * 60.0
"""Longer than the flows' own deadlines together."""
AGAIN_SECONDS = 300.0
"""What failed is tried again after that."""
AT_ONCE = 200
LOOK_AGAIN = timedelta(minutes=1)
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
        await meters.meter_pause(tx, allocation.id, at=allocation.state_since, reason=METER_REASON, cause=Cause.STOP)
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
    await meters.meter_resume(tx, allocation.id, at=allocation.state_since, cause=Cause.STOP)
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


# for money -----------------------------------------------------------------------------------------------------------
async def may_start(tx: Tx, allocation: Allocation) -> None:
    """Refuse what nobody could pay for."""
    shown = await allocations.allocation_show(tx, allocation.id)
    if shown.micros_per_gpu_hour > 0:
        await standings.refusal(tx, allocation.org_id, shown.currency)
        await budgets.refusal(tx, allocation.project_id, shown.currency)


async def standing_follow(tx: Tx, policy: PolicyReader, place: Place) -> int:
    """Bring what an organisation has to how it stands now, whatever was told of before; to how many something was done.

    Those that are just being stopped or started come to rest first: whoever calls looks again."""
    now = await standings.of(tx, place.org_id, place.currency)
    found: list[Allocation] = []
    match now.rung:
        case Rung.STOPPED:
            found = await store.to_stop(tx, place, limit=AT_ONCE)
            due_at = now.due_at or await store.now(tx) + _grace(policy, place.org_id)
            for allocation in found:
                await _stop_for_money(tx, allocation, due_at)
        case Rung.RELEASED:
            found = await store.to_release(tx, place, limit=AT_ONCE)
            for allocation in found:
                await allocations.release_for(tx, allocation, reason=BALANCE_EMPTY, by=BY)
        case Rung.GOOD | Rung.LOW:
            found = await store.to_start(tx, place, limit=AT_ONCE)
            for allocation in found:
                await _start_for_money(tx, policy, allocation)
        case Rung.EMPTY:
            pass
    return len(found)


async def _stop_for_money(tx: Tx, allocation: Allocation, due_at: datetime) -> None:
    if allocation.state is S.ACTIVE:
        await allocation_stop(tx, allocation.id, reason=StopReason.BALANCE, by=BY, due_at=due_at)
        return
    allocation = await store.unpaid(tx, allocation.id, unpaid=True)  # its people stopped it, and cannot pay for that
    await meters.meter_pause(tx, allocation.id, at=await store.now(tx), reason=METER_REASON, cause=Cause.STOP)
    await timeline_add(tx, allocation, "stop", "the balance is empty; it is not charged, and released if that stays so")


async def _start_for_money(tx: Tx, policy: PolicyReader, allocation: Allocation) -> None:
    if allocation.stop_unpaid:
        allocation = await store.unpaid(tx, allocation.id, unpaid=False)
        await meters.meter_resume(tx, allocation.id, at=await store.now(tx), cause=Cause.STOP)
        await timeline_add(tx, allocation, "paid", "there is money again: it is charged, and stays stopped")
        return
    try:
        await may_start(tx, allocation)
    except Conflict:  # the balance is good, and the project's budget is spent
        due_at = await store.now(tx) + _grace(policy, allocation.org_id)
        allocation = await store.otherwise(tx, allocation.id, reason=StopReason.BUDGET, due_at=due_at)
        await timeline_add(tx, allocation, "stop", _WORDS[StopReason.BUDGET])
        return
    await allocation_start(tx, allocation.id, by=BY)


async def budget_follow(tx: Tx, policy: PolicyReader, budget: Budget) -> int:
    """Its hard limit is reached and its grace over: what runs in the project is stopped."""
    found = await store.to_stop_in(tx, budget.project_id, budget.currency, limit=AT_ONCE)
    for allocation in found:
        due_at = await store.now(tx) + _grace(policy, allocation.org_id)
        await allocation_stop(tx, allocation.id, reason=StopReason.BUDGET, by=BY, due_at=due_at)
    return len(found)


async def concerned(tx: Tx) -> list[Place]:
    """Whose money says that something is to be done, maybe: whatever was told or not."""
    return await store.concerned(tx, await standings.at(tx, Rung.STOPPED, Rung.RELEASED))


async def stops_again(tx: Tx) -> None:
    """Nodes that have not proven that a login is closed, and answer now, are asked again."""
    for allocation in await store.to_stop_again(tx, limit=AT_ONCE):
        await stop_again(tx, allocation)


async def stopped_for_too_long(tx: Tx, policy: PolicyReader, allocation: Allocation) -> None:
    """Its time is over: it is released. For the balance only if the ladder says so, too: who was given time has it."""
    match allocation.stop_reason:
        case StopReason.USER:
            await allocations.release_for(tx, allocation, reason="lease_expired", by=BY)
        case StopReason.BUDGET:
            await _stopped_for_budget(tx, allocation)
        case _:
            currency = (await allocations.allocation_show(tx, allocation.id)).currency
            now = await standings.of(tx, allocation.org_id, currency)
            if now.rung in (Rung.GOOD, Rung.LOW):  # it could not be started: it is kept as long as its lease
                await store.due(tx, allocation.id, None)
            elif now.rung is Rung.RELEASED:
                await allocations.release_for(tx, allocation, reason=BALANCE_EMPTY, by=BY)
            else:
                soon = await store.now(tx) + LOOK_AGAIN
                await store.due(tx, allocation.id, max(now.due_at or soon, soon))


async def _stopped_for_budget(tx: Tx, allocation: Allocation) -> None:
    """Released only while its budget is spent. Where it was raised, or a month began, it is kept as long as its lease:
    its people may start it."""
    currency = (await allocations.allocation_show(tx, allocation.id)).currency
    try:
        await budgets.refusal(tx, allocation.project_id, currency)
    except Conflict:
        await allocations.release_for(tx, allocation, reason=BUDGET_SPENT, by=BY)
        return
    await store.due(tx, allocation.id, None)
    await timeline_add(tx, allocation, "stop", "the budget allows it again: it is kept, and can be started")


def _grace(policy: PolicyReader, org_id: OrgId) -> timedelta:
    return timedelta(hours=policy.number("billing.grace_hours", org_id))
