"""The verbs of health: take faults and checks in, quarantine, return.

Always holds: a GPU with a fault that is not its tenant's program's is in quarantine before the fault is acknowledged;
its siblings stay sellable; it returns only through a check under load that was asked for after the fault and passed,
and one its last tenant did not leave clean only if it was cleaned before that;
strikes and quarantines go with the serial number; a GPU two nodes claim to have is sold by neither."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.provisioning import SlotQuarantined, SlotReturned
from gpuaas.contracts.http.nodes import NodeState, TaskState
from gpuaas.contracts.tasks.catalogue import HealthCheck, HealthResult, Inspect, Sanitise, SanitiseResult, UserProvision
from gpuaas.contracts.tasks.topology import GpuFault, GpuHealth, Topology
from gpuaas.domains.inventory import service as inventory
from gpuaas.domains.inventory.models import Slot
from gpuaas.domains.nodes.health import judgement, store
from gpuaas.domains.nodes.health.models import Entry, SlotQuarantineRow
from gpuaas.domains.nodes.plausible import require_plausible
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.domains.nodes.tasks import service as tasks
from gpuaas.domains.nodes.tasks.models import TaskRow
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit import clock
from gpuaas.kit.errors import Conflict
from gpuaas.kit.ids import NodeId, SlotId, floor_id

FAILED_CHECK = "health_check_failed"
CLAIMED_TWICE = "serial_claimed_twice"
IN_USE = "gpu_in_use"
"""What a host answers when it is to load a GPU somebody has: no sickness of anything."""
ABANDONED = "enrolled_again"
PROVISIONS_FAILED = "provisions_failed"
PROVISIONS = (UserProvision.TYPE,)
FAILURES = frozenset({TaskState.FAILED, TaskState.TIMED_OUT})
FAULTS_AN_HOUR = 2000
_COUNTS = (NodeState.ACTIVE, NodeState.ENROLLING)
_NOT_CLEAN = "it works, but nothing shows that it was cleaned after its last tenant"
_LAST = UUID(int=(1 << 128) - 1)
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)

history = store.history
faults_prune = store.faults_prune
open_of_slots = store.open_of_slots
strikes = store.strikes


# faults --------------------------------------------------------------------------------------------------------------
async def faults_tell(tx: Tx, node_id: UUID, faults: Sequence[GpuFault], *, strikes_max: int) -> None:
    """Faults as the node's drivers tell them, each once. Serials that are not of this node's slots are only noted."""
    for fault in faults:
        require_plausible(fault.at, "faults.at")
    for fault in await _news(tx, node_id, faults):
        if not judgement.quarantines(fault):
            continue
        slot = await _slot(tx, node_id, fault.serial)
        if slot is None:
            continue
        opened = await _quarantine(
            tx, slot, reason=fault.code, detail=fault.detail, evidence=msgspec.to_builtins(fault), strike=True
        )
        if opened is None:
            await store.forget_check(tx, slot.id)
        elif judgement.heals_by_itself(fault, await _strikes_of(tx, slot.serial), strikes_max):
            try:
                await _check_for_return(tx, opened)
            except Conflict as full:  # the quarantine stands whether or not the node has room for a check
                await store.note(tx, node_id, [_entry(slot.serial, "fault", "no check", full.message)])


async def _news(tx: Tx, node_id: UUID, faults: Sequence[GpuFault]) -> list[GpuFault]:
    """Those that were not told before, written down. Beyond what a node can have to tell, nothing more is written; what
    speaks against a GPU still counts."""
    since = floor_id(clock.now() - timedelta(hours=1))
    if await store.faults_told(tx, node_id, since=since, at_most=FAULTS_AN_HOUR) >= FAULTS_AN_HOUR:
        return [fault for fault in faults if judgement.quarantines(fault)]
    new = await store.faults_add(tx, node_id, faults)
    if new:
        entries = [_entry(fault.serial, "fault", fault.code, f"{fault.kind}: {fault.detail}") for fault in new]
        await store.note(tx, node_id, entries)
    return new


# inspections ---------------------------------------------------------------------------------------------------------
async def inspection_ended(tx: Tx, task: TaskRow, topology: Topology) -> None:
    """What was found becomes slots. Each GPU brings its open quarantine along; one that another node has, too, is out
    of sale on both: who is right, a person finds out."""
    serials = sorted({gpu.serial for gpu in topology.gpus})
    await inventory.hold_serials(tx, serials)
    before = {slot.serial for slot in await inventory.slots_of(tx, [task.node_id]) if slot.present}
    if not await registry.node_inspected(tx, task.node_id, topology, task.ended_at or task.created_at):
        return
    claims = await _claims(tx, serials)
    for serial in serials:
        await _dispute(tx, [slot for slot in claims if slot.serial == serial])
    for slot in claims:
        if slot.node_id == task.node_id and slot.serial not in before:
            await _bring_along(tx, slot)


async def _bring_along(tx: Tx, slot: Slot) -> None:
    for old in await store.open_of_serial(tx, slot.serial):
        if old.slot_id != slot.id:
            detail = f"{old.detail} (brought along from node {old.node_id}, in quarantine there since {old.since:%F})"
            await _quarantine(tx, slot, reason=old.reason, detail=detail[:500], evidence={}, strike=False)


async def _dispute(tx: Tx, claims: list[Slot]) -> None:
    if len(claims) < 2:
        return
    nodes = await registry.several(tx, [slot.node_id for slot in claims], lease=registry.ANY_LEASE)
    for slot in claims:
        others = ", ".join(nodes[other.node_id].name for other in claims if other.node_id != slot.node_id)
        detail = f"claimed by {others} as well"[:500]
        if await _quarantine(tx, slot, reason=CLAIMED_TWICE, detail=detail, evidence={}, strike=False) is None:
            await store.forget_check(tx, slot.id)


async def _claims(tx: Tx, serials: Sequence[str]) -> list[Slot]:
    """Slots of nodes in service that were found to hold these GPUs. A disabled node is looked at before it counts."""
    slots = await inventory.slots_called(tx, serials)
    nodes = await registry.several(tx, list({slot.node_id for slot in slots}), lease=registry.ANY_LEASE)
    return [slot for slot in slots if (node := nodes.get(slot.node_id)) is not None and node.state in _COUNTS]


async def _disputed(tx: Tx, serial: str) -> bool:
    return len(await _claims(tx, [serial])) > 1


# checks --------------------------------------------------------------------------------------------------------------
async def check_ended(tx: Tx, task: TaskRow, *, strikes_max: int) -> None:
    """A health check has ended: what it found is noted, sick GPUs are quarantined, proven ones return."""
    at = task.ended_at or task.created_at
    if task.state is not TaskState.DONE:
        if task.state in FAILURES and task.code not in (IN_USE, ABANDONED):
            words = "failed" if task.state is TaskState.FAILED else "did not end"
            await registry.node_checked(tx, task.node_id, False, f"the check {words}: {task.reason}", at)
        return
    wanted, result = tasks.arguments_of(task), tasks.result_of(task, await tasks.task_story(tx, task.id))
    if not isinstance(wanted, HealthCheck) or not isinstance(result, HealthResult):
        raise TypeError(f"task {task.id} is not a health check")
    kind = "load_check" if wanted.load else "check"
    well, detail = judgement.host_verdict(result.health)
    await registry.node_checked(tx, task.node_id, well, detail, at)
    await store.note(tx, task.node_id, [Entry(serial="", kind=kind, good=well, detail=detail)])
    slots = {slot.serial: slot for slot in await inventory.slots_of(tx, [task.node_id])}
    verdicts = judgement.gpu_verdicts(result.health.gpus)
    for gpu in verdicts:
        await _gpu_checked(tx, task, gpu, slots.get(gpu.serial), load=wanted.load)
    if result.health.faults:
        await faults_tell(tx, task.node_id, result.health.faults, strikes_max=strikes_max)
    proven = {gpu.serial for gpu in verdicts if judgement.gpu_verdict(gpu)[0]}
    if any(not slots[serial].present for serial in proven if serial in slots):
        await registry.node_look_again(tx, task.node_id)  # it answers, though the last look did not find it
    of_all = wanted.load and not wanted.serials and task.subject_id == task.node_id
    all_proven = bool(proven) and {serial for serial, slot in slots.items() if slot.present} <= proven
    serious = any(map(judgement.quarantines, result.health.faults))
    if of_all and well and all_proven and len(proven) == len(verdicts) and not serious:
        await registry.node_give_back(tx, task.node_id, asked_at=task.created_at)


async def _gpu_checked(tx: Tx, task: TaskRow, gpu: GpuHealth, slot: Slot | None, *, load: bool) -> None:
    well, detail = judgement.gpu_verdict(gpu)
    await store.note(
        tx, task.node_id, [Entry(serial=gpu.serial, kind="load_check" if load else "check", good=well, detail=detail)]
    )
    if slot is None:
        return
    if not well:
        sick = msgspec.to_builtins(gpu)
        if await _quarantine(tx, slot, reason=FAILED_CHECK, detail=detail, evidence=sick, strike=True) is None:
            await store.forget_check(tx, slot.id)
    elif load and not await _disputed(tx, gpu.serial):
        if await inventory.gpu_dirty(tx, gpu.serial) and not await _cleaned_for_return(tx, slot):
            await store.note(tx, task.node_id, [_entry(gpu.serial, "load_check", "not_clean", _NOT_CLEAN)])
            return
        returned = await store.give_back(tx, task.node_id, gpu.serial, task.id)
        if returned is not None:
            await inventory.gpu_cleaned(tx, gpu.serial)
            await store.note(tx, task.node_id, [Entry(serial=gpu.serial, kind="returned", good=True)])
            tx.emit(SlotReturned(node_id=task.node_id, slot_id=slot.id, serial=gpu.serial), subject_id=slot.id)


# quarantine ----------------------------------------------------------------------------------------------------------
async def slot_quarantine(tx: Tx, slot_id: UUID, reason: str) -> Slot:
    """By an operator: no strike, and no return without him."""
    slot = await inventory.slot_get(tx, SlotId(slot_id))
    if await _quarantine(tx, slot, reason="operator", detail=reason, evidence={}, strike=False) is None:
        raise Conflict(Code.SLOT_QUARANTINED, "The slot is in quarantine already.")
    return slot


async def slot_condemn(tx: Tx, slot_id: UUID, *, reason: str, detail: str) -> None:
    """By the product: it cannot be proven good or clean. One that is in quarantine already stays so."""
    slot = await inventory.slot_get(tx, SlotId(slot_id))
    await _quarantine(tx, slot, reason=reason, detail=detail, evidence={}, strike=False)


async def return_if_condemned(tx: Tx, slot_id: UUID, *, reason: str) -> None:
    """What it was condemned for is over: have it checked under load, through which it returns."""
    found = await store.open_of_slot(tx, slot_id)
    if found is not None and found.reason == reason:
        await _check_for_return(tx, found)


async def slot_return(tx: Tx, slot_id: UUID) -> TaskRow:
    """Ask for the check under load through which the slot returns, if it passes."""
    slot = await inventory.slot_get(tx, SlotId(slot_id))
    found = await store.open_of_slot(tx, slot_id)
    if found is None:
        raise Conflict(Code.SLOT_NOT_QUARANTINED, "The slot is not in quarantine.")
    if await _disputed(tx, slot.serial):
        raise Conflict(Code.SLOT_DISPUTED, "Another node claims the same GPU. Find out which one has it.")
    await _require_active(tx, slot.node_id)
    return await _check_for_return(tx, found)


async def node_return(tx: Tx, node_id: UUID) -> TaskRow:
    """Ask for the check under load of all its GPUs through which a node returns, if it passes."""
    node = await registry.node_get(tx, node_id)
    if node.quarantine_reason is None:
        raise Conflict(Code.NODE_NOT_QUARANTINED, "The node is not in quarantine.")
    await _require_active(tx, node_id)
    if await registry.node_in_use(tx, node):
        raise Conflict(Code.NODE_IN_USE, "Somebody uses the node: its GPUs are not loaded now.")
    return await tasks.task_create(tx, node_id, HealthCheck(load=True), subject_id=node_id)


async def _require_active(tx: Tx, node_id: UUID) -> None:
    node = await registry.node_get(tx, node_id)
    if node.state is not NodeState.ACTIVE:
        raise Conflict(Code.STATE_MOVE_REFUSED, f"The node is {node.state}: it is not asked to do anything.")


async def provision_ended(tx: Tx, task: TaskRow, *, allowed: int) -> None:
    """The circuit breaker: so many failures in a row, and the node is taken out with what shows it."""
    if task.state not in FAILURES:
        return
    node = await registry.node_get(tx, task.node_id)
    last = await tasks.recent_of_types(tx, task.node_id, PROVISIONS, after=node.returned_at or _LONG_AGO, limit=allowed)
    failed = [(task_id, reason) for state, task_id, reason in last if state in FAILURES]
    if len(failed) == len(last) and judgement.breaker_trips(len(failed), allowed):
        detail = "; ".join(f"task {task_id}: {reason}" for task_id, reason in failed)
        if await registry.node_quarantine(tx, task.node_id, PROVISIONS_FAILED, detail):
            await store.note(
                tx,
                task.node_id,
                [Entry(serial="", kind="quarantined", good=False, code=PROVISIONS_FAILED, detail=detail[:500])],
            )


async def _quarantine(
    tx: Tx, slot: Slot, *, reason: str, detail: str, evidence: object, strike: bool
) -> SlotQuarantineRow | None:
    opened = await store.quarantine(
        tx,
        slot_id=slot.id,
        node_id=slot.node_id,
        serial=slot.serial,
        reason=reason,
        detail=detail,
        evidence=msgspec.json.encode(evidence).decode(),
        strike=strike,
    )
    if opened is None:
        return None
    await store.note(
        tx, slot.node_id, [Entry(serial=slot.serial, kind="quarantined", good=False, code=reason, detail=detail)]
    )
    tx.emit(
        SlotQuarantined(
            node_id=slot.node_id,
            slot_id=slot.id,
            serial=slot.serial,
            reason=reason,
            strikes=await _strikes_of(tx, slot.serial),
        ),
        subject_id=slot.id,
    )
    return opened


async def _check_for_return(tx: Tx, quarantine: SlotQuarantineRow) -> TaskRow:
    """Looked for as well as checked: it may have been gone, and be in its place again. Its last tenant's data may be
    in it: then it is cleaned before."""
    await tasks.task_create(tx, quarantine.node_id, Inspect())
    if await inventory.gpu_dirty(tx, quarantine.serial):
        clean = Sanitise(serials=[quarantine.serial])
        await tasks.task_create(tx, quarantine.node_id, clean, subject_id=quarantine.slot_id)
    task = await tasks.task_create(
        tx, quarantine.node_id, HealthCheck(serials=[quarantine.serial], load=True), subject_id=quarantine.slot_id
    )
    await store.checking(tx, quarantine.id, task.id)
    return task


async def _cleaned_for_return(tx: Tx, slot: Slot) -> bool:
    """The cleaning that was asked for with the check has shown that nothing of anybody is left in its memory."""
    found = await tasks.task_list(
        tx, node_id=slot.node_id, state=None, type=Sanitise.TYPE, subject_id=slot.id, before=_LAST, limit=1
    )
    if not found or found[0].state is not TaskState.DONE:
        return False
    result = tasks.result_of(found[0], await tasks.task_story(tx, found[0].id))
    return isinstance(result, SanitiseResult) and judgement.memory_cleared(slot.serial, result.cleanings)


async def _slot(tx: Tx, node_id: UUID, serial: str) -> Slot | None:
    """The node's own; another node's GPU is as if it were not."""
    return next((slot for slot in await inventory.slots_of(tx, [NodeId(node_id)]) if slot.serial == serial), None)


def _entry(serial: str, kind: str, code: str, detail: str) -> Entry:
    return Entry(serial=serial, kind=kind, good=False, code=code, detail=detail[:500])


async def _strikes_of(tx: Tx, serial: str) -> int:
    return (await store.strikes(tx, [serial])).get(serial, 0)
