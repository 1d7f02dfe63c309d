"""Whatever happens at once to what is stopped and started for money: the books are right, and nothing is left."""

import asyncio
import random
from typing import Any

from gpuaas.contracts.http.allocations import AllocationState as S
from gpuaas.domains.allocations.lifetime import handlers as lifetime
from gpuaas.domains.allocations.models import Allocation
from gpuaas.domains.allocations.stopping import handlers as stopping
from gpuaas.domains.billing.standing import service as standing
from tests.flows.test_ladder import HOUR, Ladder, grounds, ladder  # noqa: F401 # fixtures that pytest finds by name
from tests.support.fleet import EVERYTHING
from tests.support.money import backdated
from tests.support.people import found


async def test_whatever_happens_at_once_nothing_is_charged_that_was_not_usable_and_nothing_is_left(
    ladder: Ladder,  # noqa: F811 # the fixture
) -> None:
    """Stops, starts, releases, renewals, money that comes and goes, and GPUs that fail and are mended, all together."""
    dice, ground = random.Random(20_260_228), ladder.ground
    await ladder.top_up(50)
    allocations = [await ground.active() for _ in range(6)]
    machine, sound = ground.machines[0], {200, 202, 409}

    async def says(verb: str, allocation: Allocation, body: dict[str, Any] | None) -> None:
        answer = await ground.say("POST", f"/{allocation.id}/{verb}", body)
        assert answer.status_code in sound, answer.text

    async def falls(allocation: Allocation) -> None:
        for serial in machine.leases.all.get(allocation.id, []):
            found(await machine.fault(serial, code="XID 79"), 200)

    async def is_mended() -> None:
        async with ground.db.transaction(EVERYTHING, "test") as tx:
            await tx.run("UPDATE slot_quarantines SET ended_at = now() WHERE node_id = $1", machine.id)
        await lifetime.condition_sweep(ladder.parts)

    def anything() -> Any:
        one = dice.choice(allocations)
        return dice.choice(
            (
                lambda: says("stop", one, {}),
                lambda: says("start", one, None),
                lambda: says("renew", one, {}),
                lambda: falls(one),
                is_mended,
                lambda: ladder.top_up(1),
                lambda: stopping.money_sweep(ladder.parts),
                lambda: standing.follow(ground.db, ground.fleet.city.policy),
                ground.fleet.react,
            )
        )()

    for number in range(12):
        await ladder.wait(dice.randrange(2))
        await backdated(ladder.sql, dice.choice(allocations).id, dice.randrange(2) * 4 * HOUR)
        await asyncio.gather(*(anything() for _ in range(6)))
        await standing.follow(ground.db, ground.fleet.city.policy)
        await ground.run()
        assert await ground.leftovers() == [], number
    for allocation in allocations:
        await says("release", allocation, {"reason": "done"})
    await is_mended()
    await ladder.top_up(1_000)
    await ladder.look()
    for allocation in allocations:
        ended = await ladder.read(allocation)
        cost = await ladder.cost(allocation)
        assert (ended.state, cost.posted_micros) == (S.RELEASED, cost.micros)
    assert await ground.leftovers() == []
