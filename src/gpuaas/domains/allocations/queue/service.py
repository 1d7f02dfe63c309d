"""The verbs of the queue: who waits, in which order, since when and until when; serving those whose turn it is.

Always holds: who has lost his patience is not passed by those behind him, unless what he asks for could not be had even
on empty nodes or his quota keeps it from him; nobody is told more of the others than how many they are."""

from datetime import timedelta
from enum import Enum
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.allocations import AllocationState, PrioritySet, QueueEntry, QueuePlace
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.models import Allocation
from gpuaas.domains.allocations.placement import service as placement
from gpuaas.domains.allocations.queue import forecast, store
from gpuaas.domains.allocations.queue.models import Named, Position, Waiting
from gpuaas.domains.allocations.queue.order import in_order, out_of_patience
from gpuaas.domains.allocations.quotas import service as quotas
from gpuaas.domains.allocations.timeline.service import timeline_add
from gpuaas.domains.inventory import service as inventory
from gpuaas.domains.inventory.models import Sku
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit import clock
from gpuaas.kit.errors import Conflict, Missing
from gpuaas.kit.ids import AllocationId, OrgId, SkuId, new_id
from gpuaas.ports.policy import PolicyReader

EVERYTHING = Sight(PLATFORM)
SERVER = "system:allocations.queue"
MAX_LINE = 10_000
MAX_LEASES = 20_000
MAX_SKUS = 1_000
MAX_LOOKS = 200
"""How many requests a round tries to place; those of one size that does not fit count once."""
MAX_SHOWN = 1_000
_HOUR = 3_600

somebody_waits = store.somebody_waits


class Outcome(Enum):
    PLACED = "placed"
    NO_ROOM = "no_room"
    KEPT_BACK = "kept_back"
    """By its quota, or it is gone: no reason for anybody else to wait."""
    BUSY = "busy"
    """Somebody else serves this SKU now."""


# where one stands ----------------------------------------------------------------------------------------------------
async def positions(tx: Tx, policy: PolicyReader, sku_id: SkuId) -> list[Position]:
    """Everybody who waits for the SKU, in order."""
    return await _forecast(tx, policy, await inventory.sku_get(tx, sku_id), await _line(tx, policy, sku_id))


async def _line(tx: Tx, policy: PolicyReader, sku_id: SkuId) -> list[Waiting]:
    half_life = policy.number("allocations.share_half_life_hours") * _HOUR
    return in_order(await store.line(tx, sku_id, half_life_seconds=float(half_life), longest=MAX_LINE))


async def _forecast(tx: Tx, policy: PolicyReader, sku: Sku, line: list[Waiting]) -> list[Position]:
    starts = forecast.starts(
        line,
        await placement.groups(tx, sku, lease_seconds=policy.number("nodes.lease_seconds")),
        await store.leases(tx, sku.id, longest=MAX_LEASES),
        gpus_per_node=sku.gpus_per_node,
        now=clock.now(),
        patience=_patience(policy),
    )
    return [
        Position(entry=entry, position=number, waiting=len(line), estimated_start=starts.get(entry.id))
        for number, entry in enumerate(line, start=1)
    ]


def _patience(policy: PolicyReader) -> timedelta:
    return timedelta(minutes=policy.number("allocations.queue_patience_minutes"))


async def place_of(tx: Tx, policy: PolicyReader, allocation: Allocation) -> QueuePlace | None:
    """Where it stands and what it waits for; None: it does not wait any more."""
    sku = await inventory.sku_get(tx, allocation.sku_id)
    found = [one for one in await positions(tx, policy, sku.id) if one.entry.id == allocation.id]
    if not found:
        return None
    left = await quotas.quota_left(tx, policy, allocation.org_id, allocation.project_id, sku)
    if left < allocation.gpus:
        held_back = f"{left} more {sku.gpu_model} GPUs may be held by its quota, and it asks for {allocation.gpus}."
        return _place(found[0], f"{held_back} Release some, or ask the operator for a larger quota.")
    ask = placement.Ask(sku=sku, gpu_count=allocation.gpu_count, node_count=allocation.node_count)
    lease_seconds = policy.number("nodes.lease_seconds")
    if await placement.whether(tx, ask, lease_seconds=lease_seconds) is not None:
        return _place(found[0], f"{_ahead(found[0])} GPUs that fit are free.")
    return _place(
        found[0], f"{_ahead(found[0])} {(await placement.why_not(tx, ask, lease_seconds=lease_seconds)).summary}"
    )


async def place_at_the_end(tx: Tx, policy: PolicyReader, org_id: OrgId, ask: placement.Ask) -> QueuePlace:
    """Where a request that is made now would stand, behind everybody else."""
    entry = Waiting(
        id=AllocationId(new_id()),
        org_id=org_id,
        gpu_count=ask.gpu_count,
        node_count=ask.node_count,
        priority=0,
        lease_seconds=policy.number("allocations.lease_hours", org_id) * _HOUR,
        waiting_since=clock.now(),
        used_gpu_seconds=0.0,
    )
    found = await _forecast(tx, policy, ask.sku, [*await _line(tx, policy, ask.sku.id), entry])
    return _place(found[-1], _ahead(found[-1]))


def _place(found: Position, reason: str) -> QueuePlace:
    return QueuePlace(
        position=found.position, waiting=found.waiting, estimated_start=found.estimated_start, reason=reason
    )


def _ahead(found: Position) -> str:
    before = found.position - 1
    if not before:
        return "It is next."
    return f"{before} {'is' if before == 1 else 'are'} before it, by priority, fair share and age."


async def queue_list(tx: Tx, policy: PolicyReader, *, project_id: UUID | None = None) -> list[QueueEntry]:
    """Those this transaction sees, by SKU and place."""
    named = {one.id: one for one in await store.named(tx, project_id=project_id, limit=MAX_SHOWN)}
    entries: list[QueueEntry] = []
    for sku_id in dict.fromkeys(one.sku_id for one in named.values()):
        in_line = await positions(tx, policy, sku_id)
        entries += [_entry(found, named[found.entry.id]) for found in in_line if found.entry.id in named]
    return entries


def _entry(found: Position, named: Named) -> QueueEntry:
    return QueueEntry(
        allocation_id=named.id,
        org_id=named.org_id,
        project_id=named.project_id,
        name=named.name,
        sku_name=named.sku_name,
        gpu_count=found.entry.gpu_count,
        node_count=found.entry.node_count,
        priority=found.entry.priority,
        share=round(found.entry.used_gpu_seconds / _HOUR, 3),
        waiting_since=found.entry.waiting_since,
        place=_place(found, _ahead(found)),
    )


async def priority_set(tx: Tx, policy: PolicyReader, allocation_id: UUID, wanted: PrioritySet) -> QueueEntry:
    """By the operator; more comes first."""
    allocation = await allocations.allocation_lock(tx, allocation_id)
    await tx.enter_org(allocation.org_id)
    if not await store.set_priority(tx, allocation.id, wanted.priority):
        raise Conflict(Code.ALLOCATION_NOT_WAITING, f"The allocation is {allocation.state}: it does not wait.")
    await timeline_add(tx, allocation, "priority", f"{wanted.priority}: {wanted.reason}")
    tx.hint(allocations.QUEUE_HINT)
    entries = await queue_list(tx, policy, project_id=allocation.project_id)
    return next(entry for entry in entries if entry.allocation_id == allocation.id)


# serving it ----------------------------------------------------------------------------------------------------------
async def queue_serve(db: Database, policy: PolicyReader) -> list[UUID]:
    """One round for every SKU somebody waits for; those that were placed."""
    async with db.read(EVERYTHING) as tx:
        waited_for = await store.skus(tx, limit=MAX_SKUS)
    placed: list[UUID] = []
    for sku_id in waited_for:
        placed += await queue_pass(db, policy, sku_id)
    return placed


async def queue_pass(db: Database, policy: PolicyReader, sku_id: SkuId) -> list[UUID]:
    """Place those who wait for the SKU, in order, each in a transaction of its own: what one gets does not wait for the
    next, and nobody waits with the locks of two."""
    async with db.read(EVERYTHING) as tx:
        sku, line = await inventory.sku_get(tx, sku_id), await _line(tx, policy, sku_id)
    placed: list[UUID] = []
    hopeless: set[tuple[int, int]] = set()
    looks = 0
    for entry in line:
        shape = (entry.gpu_count, entry.node_count)
        outcome = Outcome.NO_ROOM
        if shape not in hopeless:
            looks += 1
            try:
                outcome = await _serve(db, policy, sku, entry)
            except Conflict:  # it was cancelled at this moment, or many ask for the same: the next round sees
                outcome = Outcome.BUSY
        if outcome is Outcome.PLACED:
            placed.append(entry.id)
        elif outcome is Outcome.NO_ROOM:
            hopeless.add(shape)
            if await _must_not_be_passed(db, policy, sku, entry):
                break
        if outcome is Outcome.BUSY or looks >= MAX_LOOKS:
            break
    return placed


async def _serve(db: Database, policy: PolicyReader, sku: Sku, entry: Waiting) -> Outcome:
    async with db.transaction(EVERYTHING, SERVER) as tx:
        if not await store.take_turn(tx, sku.id):
            return Outcome.BUSY
        try:
            allocation = await allocations.allocation_lock(tx, entry.id)
        except Missing:
            return Outcome.KEPT_BACK
        if allocation.state is not AllocationState.REQUESTED:
            return Outcome.KEPT_BACK
        await tx.enter_org(allocation.org_id)
        try:
            await quotas.quota_check_waiting(tx, policy, allocation.org_id, allocation.project_id, sku, allocation.gpus)
        except Conflict:
            return Outcome.KEPT_BACK
        ask = placement.Ask(sku=sku, gpu_count=allocation.gpu_count, node_count=allocation.node_count)
        lease_seconds = policy.number("nodes.lease_seconds")
        placed = await placement.place(tx, allocation.id, allocation.org_id, ask, lease_seconds=lease_seconds)
        if placed is None:
            return Outcome.NO_ROOM
        await allocations.allocation_placed(tx, allocation, placed)
        return Outcome.PLACED


async def _must_not_be_passed(db: Database, policy: PolicyReader, sku: Sku, entry: Waiting) -> bool:
    if not out_of_patience(entry, now=clock.now(), patience=_patience(policy)):
        return False
    async with db.read(EVERYTHING) as tx:
        groups = await placement.groups(tx, sku, lease_seconds=policy.number("nodes.lease_seconds"))
    return forecast.could_fit(groups, entry, gpus_per_node=sku.gpus_per_node)
