"""The verbs of lifetimes: warn, end, reclaim, mark, give up.

Always holds: a lease's end, and an idle allocation's, is told before it comes, once; whoever renews or uses it in time
keeps it; an allocation is degraded exactly while something it holds is lost or sick; nothing stays in a state past its
deadline."""

import contextlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from gpuaas.contracts.events.allocations import (
    AllocationBusyAgain,
    AllocationDegraded,
    AllocationExpiring,
    AllocationIdle,
    AllocationRestored,
)
from gpuaas.contracts.http.flows import FlowKind, FlowState
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.lifetime import store
from gpuaas.domains.allocations.lifetime.condition import troubles, unusable
from gpuaas.domains.allocations.lifetime.idle import Act, Rules, Use, Was, decide
from gpuaas.domains.allocations.lifetime.models import Measured, Place, Whole
from gpuaas.domains.allocations.models import Allocation
from gpuaas.domains.allocations.money import service as money
from gpuaas.domains.allocations.states import KEPT, HoldState, S
from gpuaas.domains.allocations.stopping import service as stopping
from gpuaas.domains.allocations.timeline.service import timeline_add
from gpuaas.domains.runs import service as runs
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.errors import Conflict
from gpuaas.kit.ids import AllocationId, ProjectId
from gpuaas.ports.policy import PolicyReader

BY = "system:lifetime"
SIGNAL = timedelta(minutes=3)
"""How old a node's last sample may be, and how far two may lie apart: agents measure each 15 s and tell each minute."""
AT_ONCE = 200
BEATS_PER_LEASE = 3
DEADLINES = (S.REQUESTED, S.PROVISIONING, S.STOPPING, S.STOPPED, S.STARTING, S.RELEASING)
QUEUE_EXPIRED = "queue_expired"
OVERDUE = "provisioning_overdue"
CLEANING_OVERDUE = "cleaning_overdue"

places = store.places
leases_expired = store.expired
overdue = store.overdue


# leases --------------------------------------------------------------------------------------------------------------
async def leases_warn(tx: Tx, policy: PolicyReader) -> None:
    """Tell of leases that end soon, each once."""
    minutes: dict[ProjectId, int] = {
        place.project_id: policy.number("allocations.expiry_warning_minutes", place.org_id, place.project_id)
        for place in await store.places(tx)
    }
    for allocation in await store.expiring(tx, minutes):
        assert allocation.expires_at is not None  # noqa: S101 # it is what was asked for
        await timeline_add(tx, allocation, "expiring", f"its lease ends at {allocation.expires_at:%Y-%m-%d %H:%M} UTC")
        event = AllocationExpiring(
            allocation_id=allocation.id, project_id=allocation.project_id, expires_at=allocation.expires_at
        )
        tx.emit(event, subject_id=allocation.id, org_id=allocation.org_id)


async def lease_end(tx: Tx, allocation_id: AllocationId) -> None:
    """Release it, unless it was renewed or released meanwhile."""
    allocation = await store.lock_expired(tx, allocation_id)
    if allocation is not None:
        await allocations.release_for(tx, allocation, reason="lease_expired", by=BY)


# idle ----------------------------------------------------------------------------------------------------------------
def rules_of(policy: PolicyReader, places: Sequence[Place]) -> dict[ProjectId, Rules]:
    """Of the projects whose idle allocations are reclaimed."""
    return {
        place.project_id: Rules(
            idle=timedelta(minutes=policy.number("allocations.idle_minutes", place.org_id, place.project_id)),
            grace=timedelta(minutes=policy.number("allocations.idle_grace_minutes", place.org_id, place.project_id)),
            percent=policy.number("allocations.idle_percent", place.org_id, place.project_id),
            kept=timedelta(days=policy.number("retention.node_metrics_days")),
        )
        for place in places
        if policy.flag("allocations.idle_reclaim", place.org_id, place.project_id)
    }


async def idle_decide(tx: Tx, rules: Mapping[ProjectId, Rules]) -> list[tuple[Measured, Act]]:
    """What is to be done, of all allocations for which it is something."""
    decided: list[tuple[Measured, Act]] = []
    for one in await store.measured(tx, list(rules), seconds=SIGNAL.total_seconds()):
        use = Use(known=one.known, percent=one.percent)
        was = Was(idle_since=one.idle_since, reclaim_at=one.reclaim_at)
        act = decide(one.now, rules.get(one.project_id), use, was)
        if act is not Act.NOTHING:
            decided.append((one, act))
    return decided


async def idle_note(tx: Tx, ids: Sequence[AllocationId]) -> None:
    await store.note_idle(tx, ids)


async def idle_act(tx: Tx, one: Measured, act: Act, rules: Rules | None) -> None:
    """Warn, reclaim, or take the warning back. What was measured all the time since it was noted must say so, too: what
    nobody looked at counts as use."""
    if act in (Act.WARN, Act.RECLAIM) and rules is not None and one.idle_since is not None:
        since = max(one.idle_since, one.now - rules.kept)
        if await store.quiet(tx, one.id, since, percent=rules.percent, gap=SIGNAL):
            await (_warn(tx, one, rules) if act is Act.WARN else _reclaim(tx, one))
            return
        act = Act.FORGET
    if act is Act.FORGET:
        used = await store.forget_idle(tx, one.id, one.idle_since)
        if used is not None and one.reclaim_at is not None:
            await timeline_add(tx, used, "busy_again", "it is not released for being idle")
            tx.emit(
                AllocationBusyAgain(allocation_id=used.id, project_id=used.project_id),
                subject_id=used.id,
                org_id=used.org_id,
            )


async def _warn(tx: Tx, one: Measured, rules: Rules) -> None:
    assert one.idle_since is not None  # noqa: S101 # it was looked at just before
    idle = await store.warn_idle(tx, one.id, one.idle_since, rules.grace)
    if idle is None or idle.reclaim_at is None:
        return
    until = f"{idle.reclaim_at:%Y-%m-%d %H:%M} UTC"
    await timeline_add(
        tx, idle, "idle", f"unused since {one.idle_since:%H:%M} UTC; released at {until} unless it is used or renewed"
    )
    tx.emit(
        AllocationIdle(
            allocation_id=idle.id, project_id=idle.project_id, idle_since=one.idle_since, reclaim_at=idle.reclaim_at
        ),
        subject_id=idle.id,
        org_id=idle.org_id,
    )


async def _reclaim(tx: Tx, one: Measured) -> None:
    assert one.idle_since is not None  # noqa: S101 # it was looked at just before
    allocation = await store.lock_idle(tx, one.id, one.idle_since)
    if allocation is not None:
        await allocations.release_for(tx, allocation, reason="idle", by=BY)


# the condition of what is held ---------------------------------------------------------------------------------------
async def condition_note(tx: Tx, policy: PolicyReader, *, node_id: UUID | None, after: UUID) -> UUID | None:
    """Mark what tenants have as degraded, or whole again: those that hold something on the node, or all. Where to go
    on, None: that was all."""
    found = await store.whole(tx, node_id=node_id, after=after, limit=AT_ONCE)
    clocks = await money.clocks(tx, [one.id for one in found])
    beat = timedelta(seconds=policy.number("nodes.lease_seconds") / BEATS_PER_LEASE)
    changed = [one for one in found if one.degraded or troubles(one.held) or clocks.stopped(one.id)]
    await store.lock_all(tx, [one.id for one in changed])
    for one in sorted(changed, key=lambda one: (one.org_id, one.id)):  # as everybody takes turns at ledgers
        reason = troubles(one.held)
        if reason:
            await _degrade(tx, one, reason)
        elif one.degraded:
            await _restore(tx, one)
        await _clock(tx, policy, one, clocks, beat)
        lost = any(gpu.node_lost for gpu in one.held)
        if lost and policy.text("allocations.node_lost_action", one.org_id, one.project_id) == "end":
            allocation = await allocations.allocation_lock(tx, one.id)
            if allocation.state in KEPT:
                await allocations.release_for(tx, allocation, reason="node_lost", by=BY)
    return found[-1].id if len(found) == AT_ONCE else None


async def _clock(tx: Tx, policy: PolicyReader, one: Whole, clocks: money.Clocks, beat: timedelta) -> None:
    """What cannot be used is not charged for, from the last good proof on; what can, is again."""
    out_of_order = unusable(one.held, beat)
    allocation = await allocations.allocation_get(tx, one.id)
    if not clocks.open(one.id) or allocation.state not in KEPT:
        return
    if out_of_order:
        reason = "; ".join(found.reason for found in out_of_order)
        await money.clock_stop(tx, allocation, clocks, at=out_of_order[0].good_at, reason=reason)
        for found in out_of_order:
            if found.fault_id is not None:
                await money.fault_credit(tx, policy, allocation, found.fault_id, found.reason)
    elif clocks.stopped(one.id):
        await money.clock_start(tx, allocation, clocks)


async def _degrade(tx: Tx, one: Whole, reason: str) -> None:
    degraded = await store.degrade(tx, one.id, reason)
    if degraded is not None:
        tx.emit(
            AllocationDegraded(allocation_id=one.id, project_id=one.project_id, reason=reason),
            subject_id=one.id,
            org_id=one.org_id,
        )
    else:
        degraded = await store.degraded_otherwise(tx, one.id, reason)
    if degraded is not None:
        await timeline_add(tx, degraded, "degraded", reason)


async def _restore(tx: Tx, one: Whole) -> None:
    restored = await store.restore(tx, one.id)
    if restored is not None:
        await timeline_add(tx, restored, "restored", "nothing it holds is lost or sick any more")
        tx.emit(
            AllocationRestored(allocation_id=one.id, project_id=one.project_id), subject_id=one.id, org_id=one.org_id
        )


async def releases_again(tx: Tx, *, node_id: UUID | None = None) -> None:
    """Try again to release what could not be proven gone, now that its nodes are back: once for each coming back."""
    for allocation_id in await store.back(tx, node_id=node_id, limit=AT_ONCE):
        with contextlib.suppress(Conflict):  # an operator was faster
            await allocations.release_again(tx, allocation_id)


# deadlines -----------------------------------------------------------------------------------------------------------
async def deadline_pass(tx: Tx, policy: PolicyReader, allocation_id: AllocationId) -> None:
    """Its state has lasted too long: the exit that the table of states names for that."""
    allocation = await store.lock_overdue(tx, allocation_id)
    if allocation is None:
        return
    match allocation.state:
        case S.REQUESTED:
            reason = "nothing that fits became free in time"
            await allocations.allocation_fail(tx, allocation, code=QUEUE_EXPIRED, reason=reason)
        case S.PROVISIONING:
            await _provisioning_passed(tx, allocation)
        case S.STOPPING:
            reason = "it was not stopped in time"
            if await _nobody_ends_it(tx, allocation, FlowKind.ALLOCATION_STOP, reason):
                await stopping.stop_failed(tx, allocation, reason=reason)
        case S.STARTING:
            reason = "it was not started in time"
            if await _nobody_ends_it(tx, allocation, FlowKind.ALLOCATION_START, reason):
                await stopping.start_failed(tx, allocation, reason=reason, closed=False)
        case S.STOPPED:
            await stopping.stopped_for_too_long(tx, policy, allocation)
        case S.RELEASING:
            reason = "it was not released in time"
            if await _nobody_ends_it(tx, allocation, FlowKind.ALLOCATION_RELEASE, reason):
                await allocations.release_failed(tx, policy, allocation, reason=reason)
        case _:
            pass


async def _provisioning_passed(tx: Tx, allocation: Allocation) -> None:
    reason = "it was not ready in time"
    if await _nobody_ends_it(tx, allocation, FlowKind.ALLOCATION_PROVISION, reason):  # what it held may be touched
        held = await allocations.holds_of(tx, allocation.id)
        await allocations.quarantine(tx, held, reason=OVERDUE, detail=f"allocation {allocation.id}: {reason}")
        await allocations.holds_end(tx, allocation, {hold.id: HoldState.QUARANTINED for hold in held})
        await allocations.allocation_fail(tx, allocation, code=OVERDUE, reason=reason)
        return
    run = await runs.open_of(tx, allocation.id, FlowKind.ALLOCATION_PROVISION)
    if run is not None and run.state is FlowState.FORWARD and run.cancel_requested_at is None:
        await runs.run_cancel(tx, run.id, reason)


async def _nobody_ends_it(tx: Tx, allocation: Allocation, kind: FlowKind, reason: str) -> bool:
    """Its flow has ended without ending it, or is past its own deadline and cannot even surrender: then it is over."""
    run = await runs.open_of(tx, allocation.id, kind)
    return run is None or await runs.run_give_up(tx, run.id, reason)


async def cleaning_pass(tx: Tx) -> None:
    """GPUs that were not cleaned in time are in quarantine, and still nobody else's."""
    for hold in await store.holds_overdue(tx, limit=AT_ONCE):
        await allocations.holds_rest(tx, hold.allocation_id, [hold.id])
        detail = f"after allocation {hold.allocation_id}: not cleaned in time"
        await allocations.quarantine(tx, [hold], reason=CLEANING_OVERDUE, detail=detail)
