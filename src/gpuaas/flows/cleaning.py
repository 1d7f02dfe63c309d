"""What both ends of an allocation share: taking its account away, cleaning what it held, proving it, and the word about
it. Each may run twice; each says of every GPU whether it is proven clean."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from gpuaas.contracts.certificates import CheckedGpu, SanitisationStatement
from gpuaas.contracts.http.allocations import Isolation
from gpuaas.contracts.tasks.base import Task
from gpuaas.contracts.tasks.catalogue import (
    Cleaning,
    CleaningMethod,
    HealthCheck,
    HealthResult,
    RevokeResult,
    Sanitise,
    SanitiseResult,
    SlotUnlease,
    UserRevoke,
)
from gpuaas.contracts.tasks.topology import HostHealth
from gpuaas.domains.allocations.certificates.service import certificate_issue
from gpuaas.domains.allocations.models import Allocation, Hold, login_of
from gpuaas.domains.allocations.timeline.service import timeline_add
from gpuaas.domains.inventory import service as inventory
from gpuaas.domains.inventory.models import Slot
from gpuaas.domains.nodes.health import judgement
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.domains.runs.models import Run
from gpuaas.flows.nodes import Answer, ask
from gpuaas.flows.story import Scene, StepFailed, Wait
from gpuaas.infra.signing import SigningKeys
from gpuaas.kit import clock, log
from gpuaas.kit.ids import NodeId, new_id
from gpuaas.ports.reimaging import Reimaging


def by_node(held: Sequence[Hold]) -> dict[NodeId, list[str]]:
    """The serial numbers held on each node, sorted."""
    nodes: dict[NodeId, list[str]] = {}
    for hold in sorted(held, key=lambda hold: hold.serial):
        nodes.setdefault(hold.node_id, []).append(hold.serial)
    return nodes


def told(run: Run) -> str:
    """Why it failed, for its people. What broke inside of us is the operator's to read, in the flow."""
    return (
        f"something of ours broke; the operator finds it in flow {run.id}"
        if run.error_code == "internal"
        else run.error
    )


async def revoke(scene: Scene, allocation: Allocation, nodes: Iterable[NodeId]) -> Wait | None:
    """The account goes, with everything of its uid. What is left of it fails the step: then it is not gone."""
    orders: dict[NodeId, Task] = {node_id: UserRevoke(login=login_of(allocation.id)) for node_id in nodes}
    answers = await ask(scene, "revoke", orders)
    if isinstance(answers, Wait):
        return answers
    ended = 0
    for answer in answers.values():
        result = answer.of(RevokeResult)
        left = {name: count for name, count in msgspec.structs.asdict(result.left).items() if count}
        if left:
            raise StepFailed("not_gone", f"of its account there are left: {left}")
        ended += result.ended_processes
    scene.memo["processes_ended"] = ended
    await timeline_add(scene.tx, allocation, "revoked", f"account removed, {ended} processes ended")
    return None


@dataclass(frozen=True)
class Cleaned:
    """What cleaning and the check after it say of each node."""

    cleanings: dict[NodeId, list[Cleaning]]
    health: dict[NodeId, HostHealth]


def verdict(
    slot: Slot, siblings: Sequence[Slot], cleanings: Sequence[Cleaning], health: HostHealth, *, anew: bool
) -> str:
    """Why this GPU is not proven clean and healthy; empty: it is. What was cleaned and belongs to none of the GPUs was
    the host's, and concerns all. A reset is no erasure: its memory has to be cleared; `anew`: its host set up anew."""
    own = {slot.serial, slot.nvme_address, slot.fabric_address}
    others = {name for s in siblings for name in (s.serial, s.nvme_address, s.fabric_address)} - own
    about = [cleaning for cleaning in cleanings if cleaning.target not in others]
    unclean = [f"{c.target} {c.method}: {c.evidence}" for c in about if not c.clean]
    if unclean:
        return "; ".join(unclean)
    if not any(c.target == slot.serial and c.method is CleaningMethod.MEMORY_CLEARED for c in about):
        return "nothing shows that its memory was cleared"
    if anew and not any(c.method is CleaningMethod.REIMAGED for c in about):
        return "nothing shows that its host was set up anew"
    found = next((gpu for gpu in judgement.gpu_verdicts(health.gpus) if gpu.serial == slot.serial), None)
    if found is None:
        return "it was not found by the check afterwards"
    well, why = judgement.gpu_verdict(found)
    return "" if well else f"its check afterwards failed: {why}"


async def clean(scene: Scene, allocation: Allocation, held: Sequence[Hold]) -> Cleaned | Wait:
    """Clean, then check. A node that cannot clean a GPU says so in its answer; one that does not answer fails it."""
    nodes = by_node(held)
    reimaging = scene.parts.get(Reimaging)  # type: ignore[type-abstract] # the part is whatever implements it
    anew = allocation.isolation is Isolation.FULL_REIMAGE
    orders: dict[NodeId, Task] = {
        node_id: reimaging.order(serials) if anew else Sanitise(serials=serials) for node_id, serials in nodes.items()
    }
    sanitised = await ask(scene, "sanitise", orders, tries=2)
    if isinstance(sanitised, Wait):
        return sanitised
    checks: dict[NodeId, Task] = {node_id: HealthCheck(serials=serials) for node_id, serials in nodes.items()}
    checked = await ask(scene, "check", checks, tries=2)
    if isinstance(checked, Wait):
        return checked
    return Cleaned(
        {node_id: answer.of(SanitiseResult).cleanings for node_id, answer in sanitised.items()},
        {node_id: _health(answer) for node_id, answer in checked.items()},
    )


def _health(answer: Answer) -> HostHealth:
    return answer.of(HealthResult).health


async def certify(scene: Scene, allocation: Allocation, held: Sequence[Hold], cleaned: Cleaned) -> list[str]:
    """A signed statement for each node; the serial numbers that are proven clean. Only when they are given back: once
    signed it stays, and what a later attempt shows is not in it."""
    anew = allocation.isolation is Isolation.FULL_REIMAGE
    nodes = await registry.several(scene.tx, list(by_node(held)), lease=registry.ANY_LEASE)
    keys, now, proven = scene.parts.get(SigningKeys), clock.now(), []
    for node_id, serials in by_node(held).items():
        slots, cleanings = await inventory.slots_of(scene.tx, [node_id]), cleaned.cleanings[node_id]
        gpus = []
        for slot in (slot for slot in slots if slot.serial in serials):
            why = verdict(slot, slots, cleanings, cleaned.health[node_id], anew=anew)
            detail = log.scrub_text(why)[:400]
            gpus.append(CheckedGpu(serial=slot.serial, model=slot.model, clean=not why, detail=detail))
        proven += [gpu.serial for gpu in gpus if gpu.clean]
        statement = SanitisationStatement(
            certificate_id=new_id(),
            allocation_id=allocation.id,
            org_id=allocation.org_id,
            project_id=allocation.project_id,
            node_id=node_id,
            node_name=nodes[node_id].name,
            isolation=allocation.isolation,
            gpus=gpus,
            account_removed=True,
            processes_ended=scene.memo.get("processes_ended", 0),
            cleanings=[_in_words(cleaning) for cleaning in cleanings],
            held_from=min(hold.held_at for hold in held),
            held_until=allocation.release_requested_at or now,
            issued_at=now,
        )
        await certificate_issue(scene.tx, keys, statement)
    await timeline_add(scene.tx, allocation, "cleaned", f"{len(proven)} of {len(held)} GPUs are proven clean")
    return proven


def _in_words(cleaning: Cleaning) -> Cleaning:
    """As it is signed: whoever reads it in a terminal reads words."""
    return msgspec.structs.replace(
        cleaning, target=log.scrub_text(cleaning.target), evidence=log.scrub_text(cleaning.evidence)
    )


async def unlease(scene: Scene, allocation: Allocation, nodes: Iterable[NodeId]) -> Wait | None:
    orders: dict[NodeId, Task] = {node_id: SlotUnlease(allocation_id=allocation.id) for node_id in nodes}
    answers = await ask(scene, "unlease", orders)
    return answers if isinstance(answers, Wait) else None
