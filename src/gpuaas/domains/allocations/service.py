"""The verbs of an allocation's life: placed, active, released, failed. What asks for one is in `requests`.

Always holds: whoever moves it holds its row, so that of a release and a forced release at once one wins; what it holds
is given back only as unused, clean with evidence, or in quarantine; nothing is charged outside of active."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.allocations import (
    AllocationAbandoned,
    AllocationActive,
    AllocationBusyAgain,
    AllocationFailed,
    AllocationReleased,
    AllocationReleaseFailed,
    AllocationReleasing,
    AllocationReserved,
)
from gpuaas.contracts.http.flows import FlowKind
from gpuaas.domains.allocations import store
from gpuaas.domains.allocations.models import Allocation, Hold, Placed, Proof
from gpuaas.domains.allocations.money import service as money
from gpuaas.domains.allocations.states import H, HoldState, S
from gpuaas.domains.allocations.timeline.service import timeline_add
from gpuaas.domains.nodes.health import service as health
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.domains.runs import service as runs
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.errors import Conflict, Missing
from gpuaas.kit.ids import HoldId
from gpuaas.ports.policy import PolicyReader

PROVISIONING_SECONDS = 45 * 60.0
RELEASING_SECONDS = 50 * 60.0
CLEANING_SECONDS = 40 * 60.0
"""Longer than the flows' own deadlines together: the states' are the wall behind them."""
QUEUE_HINT = "hint.queue"
RELEASE_FAILED = "release_failed"
ABANDONED = "release_abandoned"

allocation_insert = store.insert
allocation_get = store.get
allocation_lock = store.lock
allocation_show = store.show
allocation_list = store.list_of_project
allocation_list_all = store.list_all
gpus_of = store.gpus
holds_of = store.holds
live_in = store.live_in
keep_connection = store.keep_connection
allocation_move = store.move
allocation_failure = store.failed
sealed_by_others = store.sealed_by_others
reseal = store.reseal


async def require_in(tx: Tx, project_id: UUID, allocation_id: UUID) -> Allocation:
    """The allocation, if it is of this project; one of another is as if it were not."""
    allocation = await store.get(tx, allocation_id)
    if allocation.project_id != project_id:
        raise Missing(Code.ALLOCATION_MISSING, "There is no such allocation here.")
    return allocation


async def allocation_placed(tx: Tx, allocation: Allocation, placed: Placed) -> Allocation:
    """Its slots are held: make them ready."""
    await store.placed(tx, allocation.id, placed.explanation)
    allocation = await store.move(tx, allocation.id, to=S.PROVISIONING, due_seconds=PROVISIONING_SECONDS)
    await timeline_add(tx, allocation, "reserved", placed.explanation)
    tx.emit(
        AllocationReserved(allocation_id=allocation.id, project_id=allocation.project_id, gpus=allocation.gpus),
        subject_id=allocation.id,
        org_id=allocation.org_id,
    )
    await runs.run_start(tx, FlowKind.ALLOCATION_PROVISION, allocation.id, org_id=allocation.org_id)
    return allocation


async def proof_add(tx: Tx, proof: Proof) -> None:
    await store.proof_add(tx, proof)


async def allocation_activate(tx: Tx, allocation: Allocation, *, lifetime_seconds: int) -> Allocation:
    """Its GPUs are proven usable: from now on it is its tenant's, and charged."""
    await store.move(tx, allocation.id, to=S.ACTIVE)
    allocation = await store.active(tx, allocation.id, lifetime_seconds=lifetime_seconds)
    await money.meter_begin(tx, allocation)
    await timeline_add(tx, allocation, "active", "the GPUs are proven usable")
    assert allocation.active_at is not None  # noqa: S101 # written by the statement before
    tx.emit(
        AllocationActive(allocation_id=allocation.id, project_id=allocation.project_id, active_at=allocation.active_at),
        subject_id=allocation.id,
        org_id=allocation.org_id,
    )
    return allocation


async def allocation_fail(tx: Tx, allocation: Allocation, *, code: str, reason: str) -> Allocation:
    """It will not become active. What it held has been given back before, or it held nothing; so is its deposit."""
    await money.deposit_void(tx, allocation)
    await store.failed(tx, allocation.id, code=code, reason=reason)
    allocation = await store.move(tx, allocation.id, to=S.FAILED)
    await timeline_add(tx, allocation, "failed", reason)
    tx.emit(
        AllocationFailed(allocation_id=allocation.id, project_id=allocation.project_id, code=code, reason=reason),
        subject_id=allocation.id,
        org_id=allocation.org_id,
    )
    return allocation


async def allocation_renew(tx: Tx, allocation_id: UUID, *, seconds: int | None) -> Allocation:
    """Let it last so long from now on, up to its end; whoever renews uses it."""
    allocation = await store.lock(tx, allocation_id)
    renewed = await store.renew(tx, allocation.id, seconds=seconds or allocation.lease_seconds)
    if renewed is None:
        raise Conflict(
            Code.ALLOCATION_NOT_ACTIVE, f"The allocation is {allocation.state}: only what is active or stopped lasts."
        )
    if allocation.expires_at is not None and allocation.expires_at == allocation.ends_at:
        raise Conflict(
            Code.ALLOCATION_LIFETIME,
            f"It lasts until {allocation.ends_at:%Y-%m-%d %H:%M} UTC, as long as the policy allows.",
        )
    await money.deposit_extend(tx, renewed)
    await timeline_add(tx, renewed, "renewed", f"until {renewed.expires_at:%Y-%m-%d %H:%M} UTC")
    if allocation.reclaim_at is not None:
        tx.emit(
            AllocationBusyAgain(allocation_id=allocation.id, project_id=allocation.project_id),
            subject_id=allocation.id,
            org_id=allocation.org_id,
        )
    return renewed


# release -------------------------------------------------------------------------------------------------------------
async def allocation_release(tx: Tx, allocation_id: UUID, *, by: str, reason: str) -> Allocation:
    """Give it back, from whatever it is: out of the queue, while it is made ready, or in use."""
    allocation = await store.lock(tx, allocation_id)
    match allocation.state:
        case S.REQUESTED:
            await store.ask_release(tx, allocation.id, reason=reason, by=by, forced=False)
            return await allocation_fail(tx, allocation, code="cancelled", reason=f"taken out of the queue by {by}")
        case S.PROVISIONING:
            return await _stop(tx, allocation, by=by, reason=reason, forced=False)
        case S.ACTIVE | S.STOPPING | S.STOPPED | S.STARTING:
            return await release_for(tx, allocation, reason=reason, by=by)
        case S.RELEASING | S.RELEASE_FAILED:
            raise Conflict(Code.ALLOCATION_RELEASING, f"The allocation is {allocation.state} already.")
        case _:
            raise Conflict(Code.ALLOCATION_ENDED, f"The allocation is {allocation.state}.")


async def release_for(tx: Tx, allocation: Allocation, *, reason: str, by: str, forced: bool = False) -> Allocation:
    """What its tenant has is given back; charging ends with this commit. A stop or a start that is under way finds
    nothing more to do."""
    await store.move(tx, allocation.id, to=S.RELEASING, due_seconds=RELEASING_SECONDS)
    allocation = await store.ask_release(tx, allocation.id, reason=reason, by=by, forced=forced)
    await money.meter_end(tx, allocation)
    return await _release(tx, allocation)


async def release_again(tx: Tx, allocation_id: UUID) -> Allocation:
    """Its node is back: what could not be proven gone is looked at again."""
    allocation = await store.lock(tx, allocation_id)
    await store.move(tx, allocation.id, to=S.RELEASING, due_seconds=RELEASING_SECONDS)
    return await _release(tx, allocation)


async def allocation_force_release(
    tx: Tx, policy: PolicyReader, allocation_id: UUID, *, by: str, reason: str
) -> Allocation:
    """By an operator: like a release, and again when a release has failed; counted, backed off and bounded."""
    allocation = await store.lock(tx, allocation_id)
    match allocation.state:
        case S.ACTIVE | S.STOPPING | S.STOPPED | S.STARTING:
            return await release_for(tx, allocation, reason=reason, by=by, forced=True)
        case S.PROVISIONING:
            return await _stop(tx, allocation, by=by, reason=reason, forced=True)
        case S.RELEASE_FAILED:
            return await _force_again(tx, policy, allocation, by=by, reason=reason)
        case S.REQUESTED | S.RELEASING:
            return await allocation_release(tx, allocation_id, by=by, reason=reason)
        case _:
            raise Conflict(Code.ALLOCATION_ENDED, f"The allocation is {allocation.state}.")


async def _force_again(tx: Tx, policy: PolicyReader, allocation: Allocation, *, by: str, reason: str) -> Allocation:
    allowed = policy.number("allocations.force_release_attempts")
    pause = policy.number("allocations.force_release_pause_seconds")
    counted = await store.count_force(tx, allocation.id, pause_seconds=pause, attempts_max=allowed)
    if counted is None and allocation.force_attempts >= allowed:
        raise Conflict(
            Code.FORCE_RELEASE_EXHAUSTED,
            f"It was tried {allocation.force_attempts} times, as often as allowed. Its nodes are in quarantine: look "
            "at them, and return them when they are proven good.",
        )
    if counted is None:
        raise Conflict(
            Code.FORCE_RELEASE_LATER,
            f"The last attempt was just now. Try again after {allocation.force_after:%H:%M:%S} UTC.",
            retry_after=pause,
        )
    await store.move(tx, allocation.id, to=S.RELEASING, due_seconds=RELEASING_SECONDS)
    allocation = await store.ask_release(tx, allocation.id, reason=reason, by=by, forced=True)
    await timeline_add(tx, allocation, "forced", f"attempt {counted.force_attempts} of {allowed} by {by}: {reason}")
    return await _release(tx, allocation)


async def _stop(tx: Tx, allocation: Allocation, *, by: str, reason: str, forced: bool) -> Allocation:
    """It is being made ready: its flow is asked to take back what it did."""
    run = await runs.open_of(tx, allocation.id, FlowKind.ALLOCATION_PROVISION)
    if run is None or run.cancel_requested_at is not None or run.state != "forward":
        raise Conflict(Code.ALLOCATION_RELEASING, "The allocation is being taken back already.")
    await runs.run_cancel(tx, run.id, reason or f"given back by {by}")
    allocation = await store.ask_release(tx, allocation.id, reason=reason, by=by, forced=forced)
    await timeline_add(tx, allocation, "stopping", f"given back by {by} before it was ready")
    return allocation


async def _release(tx: Tx, allocation: Allocation) -> Allocation:
    await timeline_add(tx, allocation, "releasing", allocation.release_reason)
    assert allocation.release_requested_at is not None  # noqa: S101 # written when it was asked for
    tx.emit(
        AllocationReleasing(
            allocation_id=allocation.id,
            project_id=allocation.project_id,
            requested_at=allocation.release_requested_at,
            reason=allocation.release_reason,
            forced=allocation.forced,
        ),
        subject_id=allocation.id,
        org_id=allocation.org_id,
    )
    await runs.run_start(tx, FlowKind.ALLOCATION_RELEASE, allocation.id, org_id=allocation.org_id)
    return await store.get(tx, allocation.id)


async def holds_cleaning(tx: Tx, allocation_id: UUID) -> None:
    """Those that are cleaned already go on within their deadline."""
    await store.holds_move(tx, allocation_id, to=H.CLEANING, due_seconds=CLEANING_SECONDS)


async def holds_rest(tx: Tx, allocation_id: UUID, only: Sequence[HoldId] | None = None) -> None:
    """Nobody cleans them any more: they are held, for nobody, until somebody does."""
    await store.holds_move(tx, allocation_id, to=H.HELD, only=only)


async def holds_end(tx: Tx, allocation: Allocation, ends: Mapping[HoldId, HoldState]) -> None:
    """Give slots back; whoever waits for one is served."""
    for to in sorted(set(ends.values())):
        await store.holds_move(tx, allocation.id, to=to, only=[hold for hold, end in ends.items() if end is to])
    tx.hint(QUEUE_HINT)


async def allocation_released(tx: Tx, allocation: Allocation) -> Allocation:
    """Nothing of it is left on its nodes."""
    allocation = await store.move(tx, allocation.id, to=S.RELEASED)
    await timeline_add(tx, allocation, "released", "nothing of it is left on its nodes")
    tx.emit(
        AllocationReleased(allocation_id=allocation.id, project_id=allocation.project_id),
        subject_id=allocation.id,
        org_id=allocation.org_id,
    )
    return allocation


async def release_failed(tx: Tx, policy: PolicyReader, allocation: Allocation, *, reason: str) -> Allocation:
    """It cannot be proven gone: what it holds stays held, in quarantine, until it is; after the last forced attempt its
    nodes as well. That is the operator's worry: its tenant's money is settled."""
    allocation = await store.move(tx, allocation.id, to=S.RELEASE_FAILED)
    await money.settle(tx, allocation)
    held = await store.holds(tx, allocation.id)
    await holds_rest(tx, allocation.id)
    await quarantine(tx, held, reason=RELEASE_FAILED, detail=f"allocation {allocation.id}: {reason}")
    await store.failed(tx, allocation.id, code=RELEASE_FAILED, reason=reason)
    await timeline_add(tx, allocation, "release_failed", reason)
    tx.emit(
        AllocationReleaseFailed(allocation_id=allocation.id, project_id=allocation.project_id, reason=reason),
        subject_id=allocation.id,
        org_id=allocation.org_id,
    )
    if allocation.force_attempts >= policy.number("allocations.force_release_attempts"):
        for node_id in {hold.node_id for hold in held}:
            detail = f"allocation {allocation.id} could not be released in {allocation.force_attempts} attempts"
            await registry.node_quarantine(tx, node_id, ABANDONED, detail)
        tx.emit(
            AllocationAbandoned(
                allocation_id=allocation.id, project_id=allocation.project_id, attempts=allocation.force_attempts
            ),
            subject_id=allocation.id,
            org_id=allocation.org_id,
        )
    return allocation


async def quarantine(tx: Tx, held: Sequence[Hold], *, reason: str, detail: str) -> None:
    """Nobody is given these until they are proven good."""
    for hold in held:
        await health.slot_condemn(tx, hold.slot_id, reason=reason, detail=detail)
