"""How each event of allocations comes to be told: by flows, by the passing of time, by what agents observe. Each story
is told on simulated machines and ends with the subject its event is about."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from gpuaas.contracts.http.flows import FlowKind
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.lifetime import handlers as lifetime
from gpuaas.domains.allocations.models import login_of
from gpuaas.domains.allocations.reality import handlers as reality
from gpuaas.domains.nodes.liveness import handlers as liveness
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.support.fleet import EVERYTHING
from tests.support.ground import SSH_KEY, Ground
from tests.support.people import found

Story = Callable[[Ground, Any], Awaitable[UUID]]


async def active(ground: Ground, _: Any) -> UUID:
    return (await ground.active()).id


async def released(ground: Ground, _: Any) -> UUID:
    made = await ground.active()
    await ground.release(made.id)
    await ground.run()
    return made.id


async def failed(ground: Ground, _: Any) -> UUID:
    made = await ground.reserve()
    await ground.release(made.id)
    await ground.run()
    return made.id


async def flow_ended(ground: Ground, _: Any) -> UUID:
    made = await ground.active()
    return (await ground.flow(made.id, FlowKind.ALLOCATION_PROVISION)).id


async def given_up(ground: Ground, superuser: Any, *, attempts: int = 0) -> UUID:
    made = await ground.active()
    await ground.release(made.id)
    await superuser.execute("UPDATE allocations SET force_attempts = $2 WHERE id = $1", made.id, attempts)
    await superuser.execute(
        "UPDATE flow_runs SET state = 'surrendered', ended_at = now() WHERE subject_id = $1 AND ended_at IS NULL",
        made.id,
    )
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        locked = await allocations.allocation_lock(tx, made.id)
        await allocations.release_failed(tx, ground.fleet.city.policy, locked, reason="nobody answers")
    return made.id


async def release_failed(ground: Ground, superuser: Any) -> UUID:
    return await given_up(ground, superuser)


async def abandoned(ground: Ground, superuser: Any) -> UUID:
    return await given_up(ground, superuser, attempts=5)


async def expiring(ground: Ground, superuser: Any) -> UUID:
    made = await ground.active()
    await superuser.execute("UPDATE allocations SET expires_at = now() + interval '1 minute' WHERE id = $1", made.id)
    await lifetime.leases_follow(ground.parts)
    return made.id


async def idle(ground: Ground, superuser: Any) -> UUID:
    made, machine = await ground.active(), ground.machines[0]
    ground.fleet.city.policy.values |= {"allocations.idle_reclaim": True, "allocations.idle_minutes": 1}
    values = {f"gpu.{serial}.utilisation_percent": 0.0 for serial in machine.serials}
    told = {"batch_id": new_id(), "samples": [{"at": clock.now(), "values": values}]}
    found(await machine.say("/metrics", told), 200)
    await superuser.execute("UPDATE allocations SET idle_since = now() - interval '2 minutes' WHERE id = $1", made.id)
    await lifetime.idle_follow(ground.parts)
    return made.id


async def busy_again(ground: Ground, superuser: Any) -> UUID:
    allocation_id = await idle(ground, superuser)
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        await allocations.allocation_renew(tx, allocation_id, seconds=3600)
    return allocation_id


async def degraded(ground: Ground, superuser: Any) -> UUID:
    made, machine = await ground.active(), ground.machines[0]
    await superuser.execute(
        "UPDATE node_heartbeats SET seen_at = now() - interval '1 day' WHERE node_id = $1", machine.id
    )
    await liveness.silence_notice(ground.parts)
    await ground.fleet.react()
    return made.id


async def restored(ground: Ground, superuser: Any) -> UUID:
    allocation_id = await degraded(ground, superuser)
    await ground.machines[0].beat()
    await ground.fleet.react()
    return allocation_id


async def orphan(ground: Ground, superuser: Any) -> UUID:
    """An account of nobody, seen in two sweeps."""
    machine = ground.machines[0]
    await machine.host.provision(login_of(new_id()), [SSH_KEY], [], tell=_nobody_hears)
    for _ in range(2):
        await superuser.execute("UPDATE orphans SET first_seen_at = first_seen_at - interval '1 minute'")
        await machine.beat()
        await reality.reality_sweep(ground.parts)
    found_id: UUID = await superuser.fetchval("SELECT id FROM orphans WHERE node_id = $1", machine.id)
    return found_id


async def orphan_ended(ground: Ground, superuser: Any) -> UUID:
    orphan_id, machine = await orphan(ground, superuser), ground.machines[0]
    for login in await machine.host.accounts():
        await machine.host.revoke(login, tell=_nobody_hears)
    await machine.beat()
    await reality.reality_sweep(ground.parts)
    return orphan_id


async def _nobody_hears(name: str, detail: str) -> None:
    return


ALLOCATION_STORIES: dict[str, Story] = {
    "allocation.active": active,
    "allocation.released": released,
    "allocation.failed": failed,
    "allocation.release_failed": release_failed,
    "allocation.abandoned": abandoned,
    "allocation.expiring": expiring,
    "allocation.idle": idle,
    "allocation.busy_again": busy_again,
    "allocation.degraded": degraded,
    "allocation.restored": restored,
    "flow.ended": flow_ended,
    "orphan.found": orphan,
    "orphan.ended": orphan_ended,
}
