"""What ends, warns and marks allocations by itself. Each allocation's end is a transaction of its own: one that cannot
end does not keep the others."""

from collections.abc import Awaitable, Callable
from uuid import UUID

from gpuaas.contracts.events.base import Envelope
from gpuaas.contracts.events.provisioning import NodeLost, NodeRecovered, NodeRemoved, SlotQuarantined, SlotReturned
from gpuaas.domains.allocations.lifetime import service
from gpuaas.domains.allocations.lifetime.idle import Act
from gpuaas.infra.events import reaction, timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit import log
from gpuaas.kit.errors import Conflict
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader

_EVERYTHING = Sight(PLATFORM)
_FIRST = UUID(int=0)


@timer("allocations.lifetime", every_seconds=5)
async def leases_follow(parts: Parts) -> None:
    """Warn of leases that end soon; release those that have ended."""
    db, policy = parts.get(Database), _policy(parts)
    async with db.transaction(_EVERYTHING, service.BY) as tx:
        await service.leases_warn(tx, policy)
        ended = await service.leases_expired(tx, limit=service.AT_ONCE)
    for allocation_id in ended:
        await _alone(db, service.lease_end, allocation_id)


@timer("allocations.idle", every_seconds=15)
async def idle_follow(parts: Parts) -> None:
    """Note, warn of and release allocations whose GPUs nobody uses, where the policy says so."""
    db, policy = parts.get(Database), _policy(parts)
    async with db.transaction(_EVERYTHING, service.BY) as tx:
        rules = service.rules_of(policy, await service.places(tx))
        decided = await service.idle_decide(tx, rules)
        await service.idle_note(tx, [one.id for one, act in decided if act is Act.NOTE])
    for one, act in decided:
        if act is not Act.NOTE:
            await _alone(db, service.idle_act, one, act, rules.get(one.project_id))


@timer("allocations.deadlines", every_seconds=5)
async def deadlines_follow(parts: Parts) -> None:
    """What has been in a state for too long leaves it."""
    db, policy, after = parts.get(Database), _policy(parts), _FIRST
    while True:
        async with db.read(_EVERYTHING) as tx:
            late = await service.overdue(tx, service.DEADLINES, after=after, limit=service.AT_ONCE)
        for allocation_id in late:
            await _alone(db, service.deadline_pass, policy, allocation_id)
        if len(late) < service.AT_ONCE:
            break
        after = late[-1]
    async with db.transaction(_EVERYTHING, service.BY) as tx:
        await service.cleaning_pass(tx)


@timer("allocations.condition_sweep", every_seconds=60)
async def condition_sweep(parts: Parts) -> None:
    """Whatever was told, or not: what is held is looked at by itself, too."""
    db, policy, after = parts.get(Database), _policy(parts), _FIRST
    while True:
        async with db.transaction(_EVERYTHING, service.BY) as tx:
            going_on = await service.condition_note(tx, policy, node_id=None, after=after)
        if going_on is None:
            break
        after = going_on
    async with db.transaction(_EVERYTHING, service.BY) as tx:
        await service.releases_again(tx)


@reaction("allocations.condition", to=(NodeLost, NodeRecovered, SlotQuarantined, SlotReturned))
async def condition_follow(
    tx: Tx, event: NodeLost | NodeRecovered | SlotQuarantined | SlotReturned, envelope: Envelope, parts: Parts
) -> None:
    """Something changed on a node: whoever holds something there hears of it."""
    after: UUID | None = _FIRST
    while after is not None:
        after = await service.condition_note(tx, _policy(parts), node_id=event.node_id, after=after)
    if isinstance(event, NodeRecovered):
        await service.releases_again(tx, node_id=event.node_id)


@reaction("allocations.node_removed", to=NodeRemoved)
async def removal_follow(tx: Tx, event: NodeRemoved, envelope: Envelope) -> None:
    """What could not be proven gone from it will not be: its allocations end, and their GPUs with the node."""
    await service.releases_again(tx, node_id=event.node_id)


async def _alone(db: Database, verb: Callable[..., Awaitable[None]], *arguments: object) -> None:
    try:
        async with db.transaction(_EVERYTHING, service.BY) as tx:
            await verb(tx, *arguments)
    except Conflict as conflict:
        log.get_logger().info("it went another way meanwhile", reason=conflict.message)


def _policy(parts: Parts) -> PolicyReader:
    return parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
