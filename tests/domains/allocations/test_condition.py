"""What an allocation's people hear when something it holds is lost or sick, and what is done when a node is back."""

from typing import Any

from gpuaas.contracts.http.allocations import AllocationState as S
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.lifetime import handlers
from gpuaas.domains.allocations.models import Allocation, login_of
from gpuaas.domains.nodes.liveness import handlers as liveness
from tests.support.fleet import EVERYTHING
from tests.support.ground import Ground
from tests.support.people import found


async def events(ground: Ground, name: str, allocation: Allocation) -> list[Any]:
    return await ground.fleet.events(f"allocation.{name}", allocation.id)


async def silence(ground: Ground, superuser: Any) -> None:
    """The machine is cut off for so long that it is lost."""
    machine = ground.machines[0]
    machine.silent = True
    await superuser.execute(
        "UPDATE node_heartbeats SET seen_at = now() - interval '1 day' WHERE node_id = $1", machine.id
    )
    for _ in range(2):
        await liveness.silence_notice(ground.parts)
    await ground.fleet.react()


async def back(ground: Ground) -> None:
    machine = ground.machines[0]
    machine.silent = False
    await machine.beat()
    await ground.settle()


async def test_a_lost_node_degrades_what_is_on_it_until_it_is_back(ground: Ground, superuser: Any) -> None:
    made = await ground.active(2)
    await silence(ground, superuser)
    for _ in range(2):
        await handlers.condition_sweep(ground.parts)
    degraded = await ground.read(made.id)
    [told] = await events(ground, "degraded", made)
    assert degraded.state is S.ACTIVE
    assert degraded.degraded_since is not None
    assert told["reason"] == degraded.degraded_reason
    assert "is lost" in degraded.degraded_reason

    await back(ground)
    await handlers.condition_sweep(ground.parts)
    whole = await ground.read(made.id)
    assert (whole.degraded_since, whole.degraded_reason) == (None, "")
    assert len(await events(ground, "restored", made)) == 1
    assert len(await events(ground, "degraded", made)) == 1


async def test_where_the_policy_says_so_a_lost_node_ends_what_is_on_it(ground: Ground, superuser: Any) -> None:
    made = await ground.active()
    ground.fleet.city.policy.values["allocations.node_lost_action"] = "end"
    await silence(ground, superuser)
    await handlers.condition_sweep(ground.parts)
    made = await ground.read(made.id)
    assert (made.state, made.release_reason) == (S.RELEASING, "node_lost")
    assert len(await events(ground, "degraded", made)) == 1
    assert len(await events(ground, "releasing", made)) == 1
    await back(ground)
    await ground.run()
    assert (await ground.read(made.id)).state is S.RELEASED


async def test_a_sick_gpu_degrades_who_has_it_and_nobody_else(ground: Ground, superuser: Any) -> None:
    made, other = await ground.active(), await ground.active()
    machine = ground.machines[0]
    [serial] = machine.leases.all[made.id]
    found(await machine.fault(serial), 200)
    await ground.fleet.react()
    assert serial in (await ground.read(made.id)).degraded_reason
    assert (await ground.read(other.id)).degraded_since is None

    [mine] = await events(ground, "degraded", made)
    assert "XID 79" in mine["reason"]
    await superuser.execute("UPDATE slot_quarantines SET ended_at = now() WHERE serial = $1", serial)
    await handlers.condition_sweep(ground.parts)
    assert (await ground.read(made.id)).degraded_since is None
    assert len(await events(ground, "restored", made)) == 1


async def test_who_has_two_troubles_is_whole_only_without_both(ground: Ground, superuser: Any) -> None:
    made = await ground.active()
    machine = ground.machines[0]
    found(await machine.fault(machine.leases.all[made.id][0]), 200)
    await ground.fleet.react()
    await silence(ground, superuser)
    assert "is lost" in (await ground.read(made.id)).degraded_reason
    await back(ground)
    sick = await ground.read(made.id)
    assert "XID 79" in sick.degraded_reason
    assert len(await events(ground, "degraded", made)) == 1
    assert await events(ground, "restored", made) == []


async def test_what_could_not_be_proven_gone_is_released_when_its_node_is_back_and_not_over_and_over(
    ground: Ground, superuser: Any
) -> None:
    made = await ground.active()
    machine = ground.machines[0]
    await silence(ground, superuser)
    await ground.release(made.id)
    await give_up(ground, superuser, made)
    await handlers.condition_sweep(ground.parts)
    assert (await ground.read(made.id)).state is S.RELEASE_FAILED, "its node is still away"

    machine.silent = False
    await machine.beat()
    await ground.fleet.react()
    assert (await ground.read(made.id)).state is S.RELEASING
    await give_up(ground, superuser, made)
    for _ in range(3):
        await handlers.condition_sweep(ground.parts)
    assert (await ground.read(made.id)).state is S.RELEASE_FAILED, "it has not been away since"

    await silence(ground, superuser)
    machine.silent = False
    await machine.beat()
    await handlers.condition_sweep(ground.parts)
    await ground.run()
    assert (await ground.read(made.id)).state is S.RELEASED
    assert login_of(made.id) not in await machine.host.accounts()


async def give_up(ground: Ground, superuser: Any, allocation: Allocation) -> None:
    """As the flow does when its deadlines are over."""
    await superuser.execute(
        "UPDATE flow_runs SET state = 'surrendered', ended_at = now(), lease_until = NULL WHERE subject_id = $1",
        allocation.id,
    )
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        locked = await allocations.allocation_lock(tx, allocation.id)
        await allocations.release_failed(tx, ground.fleet.city.policy, locked, reason="nobody answers")
