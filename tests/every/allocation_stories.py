"""How each event of allocations comes to be told: by flows, by time, by what nodes say and do not say. Each story
begins on a machine of its own and ends with the subject its event is about."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.contracts.http.flows import FlowKind
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.lifetime import handlers as lifetime
from gpuaas.domains.allocations.models import Allocation, login_of
from gpuaas.domains.allocations.reality import handlers as reality
from gpuaas.domains.nodes.liveness import handlers as liveness
from gpuaas.flows.catalogue import FLOWS
from gpuaas.flows.story import Flow
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.support.fleet import EVERYTHING
from tests.support.ground import SSH_KEY, Ground
from tests.support.money import backdated
from tests.support.people import found

Story = Callable[[Ground, Any], Awaitable[UUID]]


async def _nothing(name: str, detail: str) -> None:
    return


def hasty() -> dict[FlowKind, Flow]:
    """The flows, with no patience."""
    wait = timedelta(seconds=0.2)
    return {
        kind: replace(flow, steps=tuple(replace(step, deadline=wait, undo_deadline=wait) for step in flow.steps))
        for kind, flow in FLOWS.items()
    }


async def active(ground: Ground, _: Any) -> UUID:
    return (await ground.active()).id


async def failed(ground: Ground, _: Any) -> UUID:
    for index in range(8):
        ground.machines[0].host.fail_health(index)
    made = await ground.reserve()
    await ground.run()
    assert (await ground.read(made.id)).state is AllocationState.FAILED
    return made.id


async def stopping(ground: Ground, _: Any) -> UUID:
    made = await ground.active()
    await ground.stop(made.id)
    return made.id


async def stopped(ground: Ground, superuser: Any) -> UUID:
    allocation_id = await stopping(ground, superuser)
    await ground.run()
    return allocation_id


async def stop_failed(ground: Ground, superuser: Any) -> UUID:
    allocation_id = await stopping(ground, superuser)
    ground.machines[0].silent = True
    await ground.run(ground.executor(hasty()))
    return allocation_id


async def started(ground: Ground, superuser: Any) -> UUID:
    allocation_id = await stopped(ground, superuser)
    await ground.start(allocation_id)
    await ground.run()
    return allocation_id


async def start_failed(ground: Ground, superuser: Any) -> UUID:
    allocation_id = await stopped(ground, superuser)
    for index in range(8):
        ground.machines[0].host.fail_health(index)
    await ground.start(allocation_id)
    await ground.run()
    return allocation_id


async def releasing(ground: Ground, _: Any) -> UUID:
    made = await ground.active()
    await ground.release(made.id)
    return made.id


async def released(ground: Ground, superuser: Any) -> UUID:
    allocation_id = await releasing(ground, superuser)
    await ground.run()
    return allocation_id


async def release_failed(ground: Ground, superuser: Any) -> UUID:
    made = await ground.active()
    ground.machines[0].silent = True
    await ground.release(made.id)
    await ground.run(ground.executor(hasty()))
    return made.id


async def abandoned(ground: Ground, superuser: Any) -> UUID:
    allocation_id = await release_failed(ground, superuser)
    policy = ground.fleet.city.policy
    for _ in range(policy.number("allocations.force_release_attempts")):
        await superuser.execute("UPDATE allocations SET force_after = NULL WHERE id = $1", allocation_id)
        async with ground.db.transaction(EVERYTHING, "test") as tx:
            await allocations.allocation_force_release(tx, policy, allocation_id, by="root", reason="the node is gone")
        await ground.run(ground.executor(hasty()))
    return allocation_id


async def _lost(ground: Ground, superuser: Any) -> Allocation:
    made, machine = await ground.active(), ground.machines[0]
    machine.silent = True
    await superuser.execute(
        "UPDATE node_heartbeats SET seen_at = now() - interval '1 day' WHERE node_id = $1", machine.id
    )
    for _ in range(2):
        await liveness.silence_notice(ground.parts)
    await lifetime.condition_sweep(ground.parts)
    return made


async def degraded(ground: Ground, superuser: Any) -> UUID:
    return (await _lost(ground, superuser)).id


async def restored(ground: Ground, superuser: Any) -> UUID:
    made = await _lost(ground, superuser)
    ground.machines[0].silent = False
    await ground.machines[0].beat()
    await ground.settle()
    await lifetime.condition_sweep(ground.parts)
    return made.id


async def expiring(ground: Ground, superuser: Any) -> UUID:
    made = await ground.active()
    await superuser.execute("UPDATE allocations SET expires_at = now() + interval '5 minutes' WHERE id = $1", made.id)
    await lifetime.leases_follow(ground.parts)
    return made.id


async def idle(ground: Ground, superuser: Any) -> UUID:
    made, machine, now = await ground.active(), ground.machines[0], clock.now()
    ground.fleet.city.policy.values |= {"allocations.idle_reclaim": True, "allocations.idle_minutes": 20}
    values = {f"gpu.{serial}.utilisation_percent": 0.0 for serial in machine.serials}
    samples = [{"at": now - timedelta(seconds=ago), "values": values} for ago in range(0, 3600, 30)]
    found(await machine.say("/metrics", {"batch_id": new_id(), "samples": samples}), 200)
    await lifetime.idle_follow(ground.parts)
    await superuser.execute("UPDATE allocations SET idle_since = now() - interval '21 minutes' WHERE id = $1", made.id)
    await lifetime.idle_follow(ground.parts)
    return made.id


async def busy_again(ground: Ground, superuser: Any) -> UUID:
    allocation_id = await idle(ground, superuser)
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        await allocations.allocation_renew(tx, allocation_id, seconds=3600)
    return allocation_id


async def _swept(ground: Ground, superuser: Any) -> None:
    await superuser.execute("UPDATE orphans SET first_seen_at = first_seen_at - interval '1 minute'")
    await ground.machines[0].beat()
    await reality.reality_sweep(ground.parts)


async def orphan_found(ground: Ground, superuser: Any) -> UUID:
    machine = ground.machines[0]
    await machine.host.provision(login_of(new_id()), [SSH_KEY], [machine.serials[0]], tell=_nothing)
    for _ in range(2):
        await _swept(ground, superuser)
    orphan_id: UUID = await superuser.fetchval("SELECT id FROM orphans WHERE node_id = $1", machine.id)
    return orphan_id


async def orphan_ended(ground: Ground, superuser: Any) -> UUID:
    orphan_id = await orphan_found(ground, superuser)
    for login in await ground.machines[0].host.accounts():
        await ground.machines[0].host.revoke(login, tell=_nothing)
    await _swept(ground, superuser)
    return orphan_id


async def flow_ended(ground: Ground, superuser: Any) -> UUID:
    allocation_id = await active(ground, superuser)
    return (await ground.flow(allocation_id, FlowKind.ALLOCATION_PROVISION)).id


async def fault_credited(ground: Ground, superuser: Any) -> UUID:
    made = await ground.active()
    await backdated(superuser, made.id, 3_600)
    [machine] = ground.machines
    serials = machine.leases.all[made.id]
    found(await machine.fault(serials[0], code="XID 79"), 200)
    await ground.fleet.react()
    await lifetime.condition_sweep(ground.parts)
    return made.id


ALLOCATION_STORIES: dict[str, Story] = {
    "billing.fault_credited": fault_credited,
    "allocation.reserved": active,
    "allocation.active": active,
    "allocation.failed": failed,
    "allocation.stopping": stopping,
    "allocation.stopped": stopped,
    "allocation.stop_failed": stop_failed,
    "allocation.started": started,
    "allocation.start_failed": start_failed,
    "allocation.releasing": releasing,
    "allocation.released": released,
    "allocation.release_failed": release_failed,
    "allocation.abandoned": abandoned,
    "allocation.degraded": degraded,
    "allocation.restored": restored,
    "allocation.expiring": expiring,
    "allocation.idle": idle,
    "allocation.busy_again": busy_again,
    "orphan.found": orphan_found,
    "orphan.ended": orphan_ended,
    "flow.ended": flow_ended,
}
