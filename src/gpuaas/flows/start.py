"""allocation.start: from stopped to GPUs that are proven usable again.

    account → prove → activate

The account is made again over its home, exactly its GPUs pass a health check, and only then it is active and charged.
Whatever fails on the way: the account is closed again, and it is stopped as before. Whoever releases it meanwhile comes
first: what is left to do here is nothing."""

from datetime import timedelta

from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.contracts.http.flows import FlowKind
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.models import Allocation
from gpuaas.domains.allocations.stopping import service as stopping
from gpuaas.flows import cleaning, provision, stop
from gpuaas.flows.nodes import asked_for, forget
from gpuaas.flows.story import Flow, Scene, Step, Wait, nothing

MINUTE = timedelta(minutes=1)


async def account(scene: Scene) -> Wait | None:
    if await _starting(scene) is None:
        await forget(scene, "account")
        return None
    return await provision.account(scene)


async def unaccount(scene: Scene) -> Wait | None:
    await forget(scene, "account")
    allocation = await _starting(scene)
    if allocation is None:
        return None
    if asked_for(scene, "account"):
        waits = await stop.close(scene, allocation)
        if waits is not None:
            return waits
    await stopping.start_failed(scene.tx, allocation, reason=cleaning.told(scene.run), closed=True)
    return None


async def prove(scene: Scene) -> Wait | None:
    if await _starting(scene) is None:
        await forget(scene, "prove")
        return None
    return await provision.prove(scene)


async def unprove(scene: Scene) -> None:
    await forget(scene, "prove")


async def activate(scene: Scene) -> None:
    allocation = await _starting(scene)
    if allocation is not None:
        await stopping.allocation_started(scene.tx, allocation)


async def surrender(scene: Scene) -> None:
    """Its login may be open on a node that does not answer: it is asked again."""
    allocation = await _starting(scene)
    if allocation is not None:
        await stopping.start_failed(scene.tx, allocation, reason=cleaning.told(scene.run), closed=False)


async def _starting(scene: Scene) -> Allocation | None:
    """The row, held until the step commits; None: it was released meanwhile, or all is done."""
    allocation = await allocations.allocation_lock(scene.tx, scene.subject_id)
    return allocation if allocation.state is AllocationState.STARTING else None


START = Flow(
    kind=FlowKind.ALLOCATION_START,
    version=1,
    steps=(
        Step("account", account, unaccount, 3 * MINUTE, undo_deadline=8 * MINUTE),
        Step("prove", prove, unprove, 6 * MINUTE, undo_deadline=2 * MINUTE),
        Step("activate", activate, nothing, MINUTE),
    ),
    surrender=surrender,
)
