"""allocation.stop: from the word to stop to a closed login and nothing that runs.

    suspend → finish

Its GPUs stay leased and held, its home stays as it is. Nothing is taken back: a stop that cannot be proven surrenders;
then it counts as stopped, says so, and its nodes are asked again later. Whoever releases it meanwhile comes first: what
is left to do here is nothing."""

from datetime import timedelta

import msgspec

from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.contracts.http.flows import FlowKind
from gpuaas.contracts.http.nodes import NodeState
from gpuaas.contracts.tasks.base import Task
from gpuaas.contracts.tasks.catalogue import SuspendResult, UserSuspend
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.models import Allocation, login_of
from gpuaas.domains.allocations.stopping import service as stopping
from gpuaas.domains.allocations.timeline.service import timeline_add
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.flows import cleaning
from gpuaas.flows.nodes import ask, forget
from gpuaas.flows.story import Flow, Scene, Step, StepFailed, Wait
from gpuaas.kit.ids import NodeId

MINUTE = timedelta(minutes=1)


async def close(scene: Scene, allocation: Allocation) -> Wait | None:
    """The account is closed on every node it is on. What still runs of it fails the step."""
    held = cleaning.by_node(await allocations.holds_of(scene.tx, allocation.id))
    nodes = await registry.several(scene.tx, list(held), lease=registry.ANY_LEASE)
    there = [node_id for node_id in held if nodes[node_id].state is not NodeState.REMOVED]
    orders: dict[NodeId, Task] = {node_id: UserSuspend(login=login_of(allocation.id)) for node_id in there}
    answers = await ask(scene, "suspend", orders)
    if isinstance(answers, Wait):
        return answers
    ended = 0
    for answer in answers.values():
        result = answer.of(SuspendResult)
        left = {name: count for name, count in msgspec.structs.asdict(result.left).items() if count}
        if left:
            raise StepFailed("not_stopped", f"of its account there are left: {left}")
        ended += result.ended_processes
    await timeline_add(scene.tx, allocation, "suspended", f"login closed, {ended} processes ended")
    return None


async def suspend(scene: Scene) -> Wait | None:
    allocation = await allocations.allocation_lock(scene.tx, scene.subject_id)
    if allocation.state is not AllocationState.STOPPING:
        await forget(scene, "suspend")
        return None
    return await close(scene, allocation)


async def finish(scene: Scene) -> None:
    allocation = await allocations.allocation_lock(scene.tx, scene.subject_id)
    if allocation.state is AllocationState.STOPPING:
        await stopping.allocation_stopped(scene.tx, allocation)


async def surrender(scene: Scene) -> None:
    allocation = await allocations.allocation_lock(scene.tx, scene.subject_id)
    if allocation.state is AllocationState.STOPPING:
        await stopping.stop_failed(scene.tx, allocation, reason=cleaning.told(scene.run))


STOP = Flow(
    kind=FlowKind.ALLOCATION_STOP,
    version=1,
    steps=(
        Step("suspend", suspend, None, 8 * MINUTE),
        Step("finish", finish, None, 2 * MINUTE),
    ),
    surrender=surrender,
)
