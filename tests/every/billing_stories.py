"""How each event of money comes to be told that no example tells. Each story ends with its subject."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import UUID

from gpuaas.domains.billing.ledger import handlers
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.domains.billing.ledger.models import HoldWanted
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.support.purse import Purse
from tests.support.spender import spender_of

Story = Callable[[Purse], Awaitable[UUID]]


async def proposed(purse: Purse) -> UUID:
    made = await purse.city.made(
        purse.admin, f"/admin/orgs/{purse.org_id}/adjustments", {"amount_micros": 10**9, "reason": "large"}
    )
    assert made["state"] == "proposed"
    return UUID(made["id"])


async def expired(purse: Purse) -> UUID:
    await purse.top_up(10)
    async with purse.writing() as tx:
        until = clock.now() + timedelta(milliseconds=50)
        hold = await ledger.hold_take(
            tx, HoldWanted(key=new_id().hex, org_id=purse.org_id, amount_micros=5, until=until)
        )
    await asyncio.sleep(0.1)
    await handlers.holds_expire(purse.city.parts)
    return hold.id


async def stands_otherwise(purse: Purse) -> UUID:
    spender = await spender_of(purse)
    await spender.owes(5)
    await spender.refresh()
    return spender.purse.org_id


async def counted(purse: Purse) -> UUID:
    """Empty with nothing to stop; then something runs."""
    spender = await spender_of(purse)
    await spender.owes(5)
    await spender.refresh()
    await spender.meter()
    await spender.refresh()
    return spender.purse.org_id


async def spent(purse: Purse) -> UUID:
    spender = await spender_of(purse)
    await spender.meter(ago=5)
    wanted = {"project_id": str(spender.project_id), "soft_micros": 1, "currency": "USD"}
    await purse.city.ask(spender.purse.owner, "PUT", f"/orgs/{spender.purse.org_id}/budgets", wanted)
    await purse.city.ask(spender.purse.owner, "PUT", f"/orgs/{spender.purse.org_id}/budgets", wanted)
    return spender.project_id


BILLING_STORIES: dict[str, Story] = {
    "billing.adjustment_proposed": proposed,
    "billing.hold_expired": expired,
    "billing.standing_changed": stands_otherwise,
    "billing.countdown": counted,
    "billing.budget_reached": spent,
}
