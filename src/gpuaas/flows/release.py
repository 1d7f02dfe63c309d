"""allocation.release: from the word to give back to slots that are proven clean.

    settle → revoke → clean → unlease → finish

Charging ended with the word: the first step posts the last seconds and gives the deposit back, whatever becomes of the
nodes.

`released` only when its nodes have said that nothing of it is left, and every GPU is clean with evidence or in
quarantine. A node that was removed says nothing: its GPUs are in quarantine, and no certificate speaks of them. No step
is taken back: a release that cannot go on surrenders, and then what it holds stays held and in quarantine until
somebody has proven it gone."""

from collections.abc import Sequence
from datetime import timedelta

from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.contracts.http.flows import FlowKind
from gpuaas.contracts.http.nodes import NodeState
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.models import Allocation, Hold
from gpuaas.domains.allocations.money import service as money
from gpuaas.domains.allocations.states import HoldState
from gpuaas.domains.nodes.health import service as health
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.flows import cleaning
from gpuaas.flows.story import Flow, Scene, Step, StepFailed, Wait
from gpuaas.ports.policy import PolicyReader

MINUTE = timedelta(minutes=1)


async def settle(scene: Scene) -> None:
    allocation, _ = await _read(scene)
    await money.settle(scene.tx, allocation)


async def revoke(scene: Scene) -> Wait | None:
    allocation, held = await _read(scene)
    if allocation.state is not AllocationState.RELEASING:
        raise StepFailed("state", f"the allocation is {allocation.state}")
    return await cleaning.revoke(scene, allocation, cleaning.by_node(await _there(scene, held)))


async def clean(scene: Scene) -> Wait | None:
    allocation, held = await _read(scene)
    await allocations.holds_cleaning(scene.tx, allocation.id)
    cleaned = await cleaning.clean(scene, allocation, await _there(scene, held))
    return cleaned if isinstance(cleaned, Wait) else None


async def unlease(scene: Scene) -> Wait | None:
    allocation, held = await _read(scene)
    return await cleaning.unlease(scene, allocation, cleaning.by_node(await _there(scene, held)))


async def finish(scene: Scene) -> Wait | None:
    allocation, held = await _read(scene)
    if allocation.state is AllocationState.RELEASED:
        return None
    there = await _there(scene, held)
    cleaned = await cleaning.clean(scene, allocation, there)  # as it was answered: nothing is asked again
    if isinstance(cleaned, Wait):
        return cleaned
    proven = set(await cleaning.certify(scene, allocation, there, cleaned))
    dirty = [hold for hold in held if hold.serial not in proven]
    await allocations.quarantine(
        scene.tx, dirty, reason="not_proven_clean", detail=f"after the release of allocation {allocation.id}"
    )
    ends = {hold.id: HoldState.CLEAN if hold.serial in proven else HoldState.QUARANTINED for hold in held}
    await allocations.holds_end(scene.tx, allocation, ends)
    for hold in held:
        # An earlier release that failed has put it into quarantine: now it is clean, and has to show that it works.
        if hold.serial in proven:
            await health.return_if_condemned(scene.tx, hold.slot_id, reason=allocations.RELEASE_FAILED)
    await allocations.allocation_released(scene.tx, allocation)
    return None


async def surrender(scene: Scene) -> None:
    allocation, _ = await _read(scene)
    if allocation.state is AllocationState.RELEASING:
        policy = scene.parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
        await allocations.release_failed(scene.tx, policy, allocation, reason=cleaning.told(scene.run))


async def _there(scene: Scene, held: Sequence[Hold]) -> list[Hold]:
    """Those on nodes that were not removed."""
    nodes = await registry.several(scene.tx, list({hold.node_id for hold in held}), lease=registry.ANY_LEASE)
    return [hold for hold in held if nodes[hold.node_id].state is not NodeState.REMOVED]


async def _read(scene: Scene) -> tuple[Allocation, list[Hold]]:
    allocation = await allocations.allocation_lock(scene.tx, scene.subject_id)
    return allocation, await allocations.holds_of(scene.tx, allocation.id)


RELEASE = Flow(
    kind=FlowKind.ALLOCATION_RELEASE,
    version=2,
    steps=(
        Step("settle", settle, None, MINUTE),
        Step("revoke", revoke, None, 8 * MINUTE),
        Step("clean", clean, None, 24 * MINUTE),
        Step("unlease", unlease, None, 4 * MINUTE),
        Step("finish", finish, None, 2 * MINUTE),
    ),
    surrender=surrender,
)
