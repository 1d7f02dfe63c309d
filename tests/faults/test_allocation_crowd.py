"""Fifty clients at once who ask, wait, renew, give back and force, while nodes fall silent, tell of faults and come
back, and everything that runs by itself runs: nothing waits in a circle, nothing breaks, and at the end nothing is held
by nobody."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any

import pytest

from gpuaas.domains.allocations.lifetime import handlers as lifetime
from gpuaas.domains.allocations.queue import handlers as queue
from gpuaas.domains.allocations.reality import handlers as reality
from gpuaas.domains.nodes.tasks import handlers as tasks
from gpuaas.infra.postgres.database import AGAIN, Database
from gpuaas.kit.errors import Fault
from tests.support.fleet import EVERYTHING
from tests.support.ground import Ground, Machine, ground_of

CLIENTS = 50
DEEDS = 16
SECONDS = 120
pytestmark = [pytest.mark.slow]
# What a client may hear: all of it says why, and none of it is our mistake.
REFUSALS = {
    "allocation_ended",
    "allocation_lifetime",
    "allocation_not_active",
    "allocation_releasing",
    "capacity_missing",
    "flow_ended",
    "force_release_later",
    "quota_exceeded",
    "request_in_progress",
    "state_move_refused",
}


@pytest.fixture(scope="module")
async def ground(db: Database) -> AsyncIterator[Ground]:
    async with ground_of(db, machines=3) as made:
        made.fleet.city.policy.values |= {
            "rate_limit.default_per_minute": 600_000,
            "rate_limit.default_burst": 100_000,
            "quota.gpus": 100,
            "quota.allocations": 2_000,
            "nodes.lease_seconds": 60,
        }
        yield made


@contextlib.asynccontextmanager
async def by_itself(*does: Callable[[], Awaitable[object]], pause: float, hurt: Counter[str]) -> AsyncIterator[None]:
    """Each again and again, on its own, until the block ends. What a database takes back is counted, and no more."""

    async def again(do: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await do()
            except (*AGAIN, Fault) as error:
                hurt[type(error).__name__] += 1
            await asyncio.sleep(pause)

    running = [asyncio.create_task(again(do)) for do in does]
    try:
        yield
        assert [task.exception() for task in running if task.done()] == []
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running)


class Client:
    def __init__(self, ground: Ground, number: int) -> None:
        self.ground, self.dice, self.mine = ground, Random(number), list[str]()
        self.heard: Counter[str] = Counter()

    async def act(self) -> None:
        for _ in range(DEEDS):
            if not self.mine or self.dice.random() < 0.4:
                await self.asks()
            else:
                deed = self.dice.choice((self.renews, self.releases, self.forces, self.looks))
                await deed(self.dice.choice(self.mine))

    async def asks(self) -> None:
        wanted = {
            "gpu_count": self.dice.choice((1, 1, 2, 4)),
            "node_count": self.dice.choice((1, 1, 2, 3)),
            "if_full": self.dice.choice(("refuse", "queue")),
        }
        made = self.note(await self.ground.ask(**wanted))
        if made is not None:
            self.mine.append(made["id"])

    async def renews(self, one: str) -> None:
        self.note(await self.ground.say("POST", f"/{one}/renew", {}))

    async def releases(self, one: str) -> None:
        self.note(await self.ground.say("POST", f"/{one}/release", {}))

    async def forces(self, one: str) -> None:
        fleet = self.ground.fleet
        path = f"/allocations/{one}/force-release"
        self.note(await fleet.city.ask(fleet.admin, "POST", path, {"reason": "they are needed elsewhere"}))

    async def looks(self, one: str) -> None:
        self.note(await self.ground.say("GET", f"/{one}"))
        self.note(await self.ground.say("GET", f"/{one}/explain"))

    def note(self, answer: Any) -> Any:
        if answer.is_success:
            return answer.json()
        code = answer.json()["error"]["code"]
        self.heard[code] += 1
        assert code in REFUSALS, answer.text
        return None


async def labours(ground: Ground, machine: Machine, dice: Random) -> None:
    machine.silent = dice.random() < 0.1
    await machine.beat()
    await machine.labour()
    if dice.random() < 0.02:
        serial = dice.choice([gpu.serial for gpu in (await machine.host.inspect()).gpus])
        await machine.fault(serial, kind="application", code="XID 31")


async def deadlocks(superuser: Any) -> int:
    await superuser.execute("SELECT pg_stat_force_next_flush()")
    found: int = await superuser.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return found


async def test_a_crowd_leaves_nothing_behind_and_nobody_waits_in_a_circle(ground: Ground, superuser: Any) -> None:
    before, hurt, parts = await deadlocks(superuser), Counter[str](), ground.parts
    crowd = [Client(ground, number) for number in range(CLIENTS)]
    working = [asyncio.create_task(ground.executor(worker=f"w{n}").run(ground.fleet.hints)) for n in range(2)]
    dice = Random(1)
    does = [lambda machine=machine: labours(ground, machine, dice) for machine in ground.machines]
    timers = (
        lambda: lifetime.leases_follow(parts),
        lambda: lifetime.idle_follow(parts),
        lambda: lifetime.deadlines_follow(parts),
        lambda: lifetime.condition_sweep(parts),
        lambda: queue.queue_serve(parts),
        lambda: reality.reality_sweep(parts),
        lambda: tasks.tasks_overdue(parts),
    )
    try:
        async with (
            by_itself(*does, ground.fleet.sign, pause=0.01, hurt=hurt),
            by_itself(ground.fleet.react, pause=0.05, hurt=hurt),
            by_itself(*timers, pause=0.2, hurt=hurt),
        ):
            await asyncio.wait_for(asyncio.gather(*(client.act() for client in crowd)), SECONDS)
            for client in crowd:
                for one in client.mine:
                    await client.releases(one)
            await asyncio.wait_for(ended(ground), SECONDS)
    finally:
        for task in working:
            task.cancel()
        await asyncio.wait(working)
    assert all(task.cancelled() for task in working)
    assert await ground.leftovers() == []
    heard = sum((client.heard for client in crowd), Counter[str]())
    assert heard["capacity_missing"], "nobody was in anybody's way"
    assert await deadlocks(superuser) == before
    assert hurt == Counter()


async def ended(ground: Ground) -> None:
    """Until every allocation has ended; those whose release failed are forced."""
    while True:
        async with ground.db.read(EVERYTHING) as tx:
            live = await tx.rows("SELECT id, state FROM allocations WHERE state NOT IN ('released', 'failed')")
        if not live:
            return
        for row in live:
            if row["state"] in ("release_failed", "active"):
                path = f"/allocations/{row['id']}/force-release"
                await ground.fleet.city.ask(ground.fleet.admin, "POST", path, {"reason": "the crowd has left"})
        await asyncio.sleep(0.5)
