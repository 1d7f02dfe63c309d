"""What stops and starts allocations by itself: how an organisation stands with its money, and what a project may spend.

Events say when to look; what is done follows from how things are then, so they may come late, twice and in any order. A
timer looks, too, for whoever was not told."""

from collections.abc import Awaitable, Callable

from gpuaas.contracts.events.base import Envelope
from gpuaas.contracts.events.billing import BudgetReached, StandingChanged
from gpuaas.contracts.http.budgets import BudgetLimit
from gpuaas.domains.allocations.stopping import service
from gpuaas.domains.billing.budgets import service as budgets
from gpuaas.domains.billing.standing.models import Place
from gpuaas.infra.events import reaction, timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit import log
from gpuaas.kit.errors import Conflict
from gpuaas.kit.ids import OrgId
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader

_EVERYTHING = Sight(PLATFORM)


@reaction("allocations.standing", to=StandingChanged)
async def standing_hear(tx: Tx, event: StandingChanged, envelope: Envelope, parts: Parts) -> None:
    if envelope.org_id is not None:
        await service.standing_follow(tx, _policy(parts), Place(OrgId(envelope.org_id), event.currency))


@reaction("allocations.budget", to=BudgetReached)
async def budget_hear(tx: Tx, event: BudgetReached, envelope: Envelope, parts: Parts) -> None:
    if event.limit is BudgetLimit.HARD:
        for budget in await budgets.overdue(tx):
            if budget.project_id == event.project_id:
                await service.budget_follow(tx, _policy(parts), budget)


@timer("allocations.money", every_seconds=5)
async def money_sweep(parts: Parts) -> None:
    """Whatever was told, or not: everybody's allocations are as their money says. Those of one organisation are a
    transaction of their own."""
    db, policy = parts.get(Database), _policy(parts)
    async with db.read(_EVERYTHING) as tx:
        places, spent = await service.concerned(tx), await budgets.overdue(tx)
    for place in places:
        await _alone(db, service.standing_follow, policy, place)
    for budget in spent:
        await _alone(db, service.budget_follow, policy, budget)
    await _alone(db, service.stops_again)


async def _alone(db: Database, verb: Callable[..., Awaitable[object]], *arguments: object) -> None:
    try:
        async with db.transaction(_EVERYTHING, service.BY) as tx:
            await verb(tx, *arguments)
    except Conflict as conflict:
        log.get_logger().info("it went another way meanwhile", reason=conflict.message)


def _policy(parts: Parts) -> PolicyReader:
    return parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
