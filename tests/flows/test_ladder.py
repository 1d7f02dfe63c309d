"""The ladder at an empty balance, on simulated machines: warned, nothing new, stopped and kept, released; money stops
it at any rung. Whatever is told twice, late or never."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from gpuaas.contracts.http.allocations import AllocationState, StopReason
from gpuaas.contracts.http.standing import Rung
from gpuaas.domains.allocations.lifetime import handlers as lifetime
from gpuaas.domains.allocations.models import Allocation, login_of
from gpuaas.domains.allocations.stopping import handlers as stopping
from gpuaas.domains.billing.meters import service as meters
from gpuaas.domains.billing.meters.models import Cost
from gpuaas.domains.billing.standing import service as standing
from gpuaas.domains.nodes.liveness import handlers as liveness
from gpuaas.infra.hosts.simulated import accounts as shells
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.ids import OrgId
from gpuaas.ports.host import HostFailed
from tests.every.allocation_stories import hasty
from tests.support.fleet import EVERYTHING
from tests.support.ground import Ground, ground_of
from tests.support.money import MICROS, backdated, given
from tests.support.people import found, refusal
from tests.support.servers import DatabaseUrls

S = AllocationState
HOUR = 3_600
LATER = """
UPDATE standings SET state_since = state_since - make_interval(hours => $2),
    due_at = due_at - make_interval(hours => $2), counting_since = counting_since - make_interval(hours => $2)
WHERE org_id = $1
"""


class Ladder:
    """Somebody with five units, whose GPU costs 3.60 an hour."""

    def __init__(self, ground: Ground, sql: Any) -> None:
        self.ground, self.sql = ground, sql

    @property
    def parts(self) -> Any:
        return self.ground.parts

    async def rung(self) -> Rung:
        async with self.ground.db.read(EVERYTHING) as tx:
            return (await standing.of(tx, OrgId(self.ground.org_id))).rung

    async def spends_all(self, allocation: Allocation) -> None:
        """Two hours pass for its meter."""
        await backdated(self.sql, allocation.id, 2 * HOUR)

    async def look(self) -> Rung:
        """The timers, and all that follows from them."""
        await standing.follow(self.ground.db, self.ground.fleet.city.policy)
        await self.ground.fleet.react()
        await stopping.money_sweep(self.parts)
        await self.ground.run()
        return await self.rung()

    async def wait(self, hours: int) -> None:
        """For the ladder, and for what waits for it."""
        await self.sql.execute(LATER, self.ground.org_id, hours)

    async def down_to(self, rung: Rung, allocation: Allocation) -> None:
        await self.spends_all(allocation)
        assert await self.look() is Rung.EMPTY
        for reached, hours in ((Rung.STOPPED, 1), (Rung.RELEASED, 25)):
            if await self.rung() is rung:
                return
            await self.wait(hours)
            assert await self.look() is reached

    async def top_up(self, units: int = 100) -> None:
        """As payments do it: posted, and looked at in the same transaction."""
        await given(self.ground.db, self.ground.org_id, units * MICROS)
        async with self.ground.db.transaction(EVERYTHING, "test") as tx:
            await standing.refresh(tx, self.ground.fleet.city.policy, OrgId(self.ground.org_id))

    async def budget(self, hard_micros: int) -> None:
        """Reached, it is at once what stops: without a grace."""
        city = self.ground.fleet.city
        city.policy.values |= {"billing.budget_grace_minutes": 0}
        body = {"project_id": str(self.ground.project_id), "hard_micros": hard_micros}
        found(await city.ask(self.ground.owner, "PUT", f"/orgs/{self.ground.org_id}/budgets", body), 200)

    async def read(self, allocation: Allocation) -> Allocation:
        return await self.ground.read(allocation.id)

    async def cost(self, allocation: Allocation) -> Cost:
        async with self.ground.db.read(EVERYTHING) as tx:
            cost = await meters.meter_cost(tx, allocation.id)
        assert cost is not None
        return cost

    async def told(self, name: str, subject_id: UUID) -> int:
        return len(await self.ground.fleet.events(name, subject_id))

    def runs(self, allocation: Allocation) -> int:
        return self.ground.machines[0].host.leave_running(login_of(allocation.id), 600)

    def home_of(self, allocation: Allocation) -> Path:
        return self.ground.machines[0].home(login_of(allocation.id))


@pytest.fixture(scope="module")
async def grounds(db: Database) -> AsyncIterator[Ground]:
    async with ground_of(db, machines=0) as made:
        yield made


@pytest.fixture
async def ladder(grounds: Ground, database: DatabaseUrls) -> AsyncIterator[Ladder]:
    """On a machine, and with an organisation, of its own."""
    await grounds.anew()
    city = grounds.fleet.city
    grounds.org_id = UUID(await city.org(grounds.owner))
    project = await city.made(grounds.owner, f"/orgs/{grounds.org_id}/projects", {"name": "training"})
    grounds.project_id = UUID(project["id"])
    await given(grounds.db, grounds.org_id, 5 * MICROS)
    sql = await asyncpg.connect(database.superuser)
    yield Ladder(grounds, sql)
    await sql.close()


async def test_at_zero_it_is_stopped_and_kept_and_a_top_up_starts_it_as_it_was(ladder: Ladder) -> None:
    allocation = await ladder.ground.active()
    home = ladder.home_of(allocation)
    (home / "kept").write_text("mine")
    ladder.runs(allocation)
    await ladder.spends_all(allocation)

    assert await ladder.look() is Rung.EMPTY
    assert (await ladder.read(allocation)).state is S.ACTIVE
    assert refusal(await ladder.ground.ask()) == (409, "balance_empty")

    await ladder.wait(1)
    assert await ladder.look() is Rung.STOPPED
    stopped = await ladder.read(allocation)
    assert (stopped.state, stopped.stop_reason) == (S.STOPPED, "balance")
    assert shells.processes_of(home) == []
    with pytest.raises(HostFailed, match="cannot log in"):
        ladder.runs(allocation)
    before = await ladder.cost(allocation)
    assert before.paused
    refused = await ladder.ground.say("POST", f"/{allocation.id}/start")
    assert refusal(refused) == (409, "balance_empty")

    await ladder.top_up()
    assert await ladder.look() is Rung.GOOD
    started = await ladder.read(allocation)
    assert (started.state, started.stop_reason) == (S.ACTIVE, "")
    assert (home / "kept").read_text() == "mine"
    ladder.runs(allocation)
    after = await ladder.cost(allocation)
    assert not after.paused
    assert after.seconds - before.seconds < HOUR
    async with ladder.ground.db.read(EVERYTHING) as tx:
        [pause] = await tx.rows(
            "SELECT p.from_at, p.until_at, p.reason FROM meter_pauses p JOIN meters m ON m.id = p.meter_id "
            "WHERE m.subject_id = $1",
            allocation.id,
        )
    assert (pause["reason"], pause["until_at"]) == ("stopped", started.state_since)
    assert pause["from_at"] == stopped.stop_requested_at
    assert await ladder.ground.leftovers() == []


async def test_without_money_it_is_released_clean_with_a_certificate_after_the_grace(ladder: Ladder) -> None:
    allocation = await ladder.ground.active()
    await ladder.down_to(Rung.RELEASED, allocation)
    ended = await ladder.read(allocation)
    assert (ended.state, ended.release_reason) == (S.RELEASED, "balance_empty")
    async with ladder.ground.db.read(EVERYTHING) as tx:
        certified = await tx.value(
            "SELECT count(*) FROM sanitisation_certificates WHERE allocation_id = $1", allocation.id
        )
    assert certified == 1
    assert await ladder.ground.machines[0].host.accounts() == []
    assert await ladder.ground.leftovers() == []


async def test_a_top_up_while_it_stops_starts_it_once_it_is_stopped(ladder: Ladder) -> None:
    allocation = await ladder.ground.active()
    await ladder.spends_all(allocation)
    await ladder.look()
    await ladder.wait(1)
    await standing.follow(ladder.ground.db, ladder.ground.fleet.city.policy)
    await ladder.ground.fleet.react()
    assert (await ladder.read(allocation)).state is S.STOPPING
    await ladder.top_up()
    await ladder.ground.fleet.react()
    assert (await ladder.read(allocation)).state is S.STOPPING
    await ladder.ground.run()
    assert await ladder.look() is Rung.GOOD
    assert (await ladder.read(allocation)).state is S.ACTIVE
    assert [await ladder.told(f"allocation.{name}", allocation.id) for name in ("stopped", "started")] == [1, 1]


async def test_events_that_come_late_and_in_the_wrong_order_do_what_is_right_now(ladder: Ladder) -> None:
    allocation = await ladder.ground.active()
    await ladder.down_to(Rung.STOPPED, allocation)
    await ladder.top_up()
    assert await ladder.look() is Rung.GOOD
    async with ladder.ground.db.read(EVERYTHING) as tx:
        rows = await tx.rows(
            "SELECT * FROM outbox WHERE name = 'billing.standing_changed' AND org_id = $1 ORDER BY id DESC",
            ladder.ground.org_id,
        )
    for row in rows:
        await ladder.ground.fleet._deliver(row)
    await ladder.ground.run()
    assert (await ladder.read(allocation)).state is S.ACTIVE
    assert await ladder.told("allocation.stopped", allocation.id) == 1


async def test_the_sweep_does_what_no_event_told(ladder: Ladder) -> None:
    allocation = await ladder.ground.active()
    await ladder.spends_all(allocation)
    await ladder.look()
    await ladder.wait(1)
    await standing.follow(ladder.ground.db, ladder.ground.fleet.city.policy)
    await stopping.money_sweep(ladder.parts)
    assert (await ladder.read(allocation)).state is S.STOPPING


async def test_what_its_people_stopped_is_charged_and_is_not_started_for_them(ladder: Ladder) -> None:
    allocation = await ladder.ground.active()
    found(await ladder.ground.say("POST", f"/{allocation.id}/stop", {}), 202)
    await ladder.ground.run()
    stopped = await ladder.read(allocation)
    assert (stopped.state, stopped.stop_reason, stopped.due_at) == (S.STOPPED, "user", stopped.expires_at)
    assert not (await ladder.cost(allocation)).paused
    await ladder.down_to(Rung.STOPPED, allocation)
    assert (await ladder.cost(allocation)).paused
    await ladder.top_up()
    assert await ladder.look() is Rung.GOOD
    kept = await ladder.read(allocation)
    assert (kept.state, kept.stop_reason, kept.stop_unpaid) == (S.STOPPED, "user", False)
    assert not (await ladder.cost(allocation)).paused
    found(await ladder.ground.say("POST", f"/{allocation.id}/start"), 202)
    await ladder.ground.run()
    assert (await ladder.read(allocation)).state is S.ACTIVE


async def test_what_its_people_stopped_is_released_with_its_lease(ladder: Ladder) -> None:
    allocation = await ladder.ground.active()
    await ladder.ground.stop(allocation.id, StopReason.USER)
    await ladder.ground.run()
    await ladder.sql.execute("UPDATE allocations SET expires_at = now(), due_at = now() WHERE id = $1", allocation.id)
    await lifetime.deadlines_follow(ladder.parts)
    await ladder.ground.run()
    ended = await ladder.read(allocation)
    assert (ended.state, ended.release_reason) == (S.RELEASED, "lease_expired")


async def test_who_was_given_time_keeps_what_is_stopped_past_its_date(ladder: Ladder) -> None:
    allocation = await ladder.ground.active()
    await ladder.down_to(Rung.STOPPED, allocation)
    await ladder.sql.execute("UPDATE allocations SET due_at = now() WHERE id = $1", allocation.id)
    await lifetime.deadlines_follow(ladder.parts)
    kept = await ladder.read(allocation)
    assert kept.state is S.STOPPED
    assert kept.due_at is not None
    assert kept.due_at > kept.state_since


async def test_a_node_lost_while_stopped_is_not_started_until_it_is_back(ladder: Ladder) -> None:
    allocation, machine = await ladder.ground.active(), ladder.ground.machines[0]
    await ladder.down_to(Rung.STOPPED, allocation)
    machine.silent = True
    await ladder.sql.execute(
        "UPDATE node_heartbeats SET seen_at = now() - interval '1 day' WHERE node_id = $1", machine.id
    )
    for _ in range(2):
        await liveness.silence_notice(ladder.parts)
    await lifetime.condition_sweep(ladder.parts)
    assert (await ladder.read(allocation)).degraded_since is not None
    await ladder.top_up()
    assert await ladder.look() is Rung.GOOD
    assert (await ladder.read(allocation)).state is S.STOPPED
    machine.silent = False
    await machine.beat()
    await ladder.ground.settle()
    await lifetime.condition_sweep(ladder.parts)
    assert (await ladder.cost(allocation)).paused
    await ladder.look()
    assert (await ladder.read(allocation)).state is S.ACTIVE
    assert await ladder.ground.leftovers() == []


async def test_a_stop_that_no_node_has_proven_is_asked_for_again(ladder: Ladder) -> None:
    allocation, machine = await ladder.ground.active(), ladder.ground.machines[0]
    machine.silent = True
    await ladder.ground.stop(allocation.id)
    await ladder.ground.run(ladder.ground.executor(hasty()))
    machine.silent = False
    await stopping.money_sweep(ladder.parts)
    assert (await ladder.read(allocation)).state is S.STOPPED  # not yet
    await ladder.sql.execute(
        "UPDATE allocations SET stop_after = now(), stop_reason = 'budget' WHERE id = $1", allocation.id
    )
    await stopping.money_sweep(ladder.parts)
    await ladder.ground.run()
    told = await ladder.read(allocation)
    assert (told.state, told.failure_code) == (S.STOPPED, "")
    with pytest.raises(HostFailed, match="cannot log in"):
        ladder.runs(allocation)


async def test_a_spent_budget_stops_its_project_until_it_is_raised_and_somebody_starts_it(ladder: Ladder) -> None:
    await ladder.top_up(1_000)
    allocation = await ladder.ground.active()
    await backdated(ladder.sql, allocation.id, 60)
    await ladder.budget(1)
    assert await ladder.look() is Rung.GOOD
    stopped = await ladder.read(allocation)
    assert (stopped.state, stopped.stop_reason) == (S.STOPPED, "budget")
    assert (await ladder.cost(allocation)).paused
    assert await ladder.look() is Rung.GOOD
    assert (await ladder.read(allocation)).state is S.STOPPED
    refused = await ladder.ground.say("POST", f"/{allocation.id}/start")
    assert refusal(refused) == (409, "budget_spent")
    await ladder.budget(1_000 * MICROS)
    found(await ladder.ground.say("POST", f"/{allocation.id}/start"), 202)
    await ladder.look()
    assert (await ladder.read(allocation)).state is S.ACTIVE
    assert not (await ladder.cost(allocation)).paused


async def test_what_a_budget_stopped_is_released_when_nobody_starts_it_in_time(ladder: Ladder) -> None:
    await ladder.top_up(1_000)
    allocation = await ladder.ground.active()
    await backdated(ladder.sql, allocation.id, 60)
    await ladder.budget(1)
    await ladder.look()
    await ladder.sql.execute("UPDATE allocations SET due_at = now() WHERE id = $1", allocation.id)
    await lifetime.deadlines_follow(ladder.parts)
    await ladder.ground.run()
    ended = await ladder.read(allocation)
    assert (ended.state, ended.release_reason) == (S.RELEASED, "budget_spent")


async def test_what_a_budget_stopped_is_kept_past_its_date_once_the_budget_is_raised(ladder: Ladder) -> None:
    await ladder.top_up(1_000)
    allocation = await ladder.ground.active()
    await backdated(ladder.sql, allocation.id, 60)
    await ladder.budget(1)
    await ladder.look()
    await ladder.budget(1_000 * MICROS)
    await ladder.sql.execute("UPDATE allocations SET due_at = now() WHERE id = $1", allocation.id)
    await lifetime.deadlines_follow(ladder.parts)
    await ladder.ground.run()
    kept = await ladder.read(allocation)
    assert (kept.state, kept.stop_due_at) == (S.STOPPED, None)
    found(await ladder.ground.say("POST", f"/{allocation.id}/start"), 202)
    await ladder.look()
    assert (await ladder.read(allocation)).state is S.ACTIVE


async def test_what_waited_while_its_project_s_budget_was_spent_is_not_made_ready(ladder: Ladder) -> None:
    await ladder.top_up(1_000)
    allocation = await ladder.ground.active()
    waiting = await ladder.ground.reserve()
    await backdated(ladder.sql, allocation.id, 60)
    await ladder.budget(1)
    await ladder.ground.run()
    refused = await ladder.read(waiting)
    assert (refused.state, refused.failure_code) == (S.FAILED, "budget_spent")
    assert await ladder.ground.leftovers() == []


async def test_where_nothing_is_set_aside_some_money_must_be_there_all_the_same(ladder: Ladder) -> None:
    allocation = await ladder.ground.active()
    ladder.ground.fleet.city.policy.values |= {"billing.hold_minutes": 0}
    await ladder.spends_all(allocation)
    assert refusal(await ladder.ground.ask()) == (409, "balance_too_low")
    await ladder.top_up()
    found(await ladder.ground.ask(), 202)


async def test_what_was_stopped_for_the_balance_stays_so_for_a_spent_budget_when_money_comes(ladder: Ladder) -> None:
    allocation = await ladder.ground.active()
    await ladder.down_to(Rung.STOPPED, allocation)
    await ladder.budget(1)
    await ladder.top_up()
    assert await ladder.look() is Rung.GOOD
    kept = await ladder.read(allocation)
    assert (kept.state, kept.stop_reason) == (S.STOPPED, "budget")
    assert (await ladder.cost(allocation)).paused


async def test_of_two_sweeps_an_event_and_a_release_at_once_each_thing_is_done_once(ladder: Ladder) -> None:
    await ladder.top_up(8)
    allocations = [await ladder.ground.active() for _ in range(3)]
    for allocation in allocations:
        await ladder.spends_all(allocation)
    await ladder.look()
    await ladder.wait(1)
    await standing.follow(ladder.ground.db, ladder.ground.fleet.city.policy)
    first, *others = allocations
    await asyncio.gather(
        stopping.money_sweep(ladder.parts),
        ladder.ground.fleet.react(),
        ladder.ground.release(first.id),
        stopping.money_sweep(ladder.parts),
    )
    await ladder.ground.run()
    assert (await ladder.read(first)).state is S.RELEASED
    assert [(await ladder.read(one)).state for one in others] == [S.STOPPED, S.STOPPED]
    assert [await ladder.told("allocation.stopped", one.id) for one in others] == [1, 1]
    assert await ladder.ground.leftovers() == []


async def test_it_costs_what_it_was_active_for_to_the_second_however_often_it_was_stopped(ladder: Ladder) -> None:
    await ladder.top_up(1_000)
    allocation = await ladder.ground.active()
    for _ in range(3):
        await asyncio.sleep(0.7)
        await ladder.ground.stop(allocation.id)
        await ladder.ground.run()
        await ladder.ground.start(allocation.id)
        await ladder.ground.run()
    await ladder.ground.release(allocation.id)
    await ladder.ground.run()
    async with ladder.ground.db.read(EVERYTHING) as tx:
        [row] = await tx.rows(
            "SELECT m.billed_seconds, m.billed_micros, m.opened_at, m.closed_at, "
            "(SELECT array_agg(p.until_at - p.from_at) FROM meter_pauses p WHERE p.meter_id = m.id) AS pauses "
            "FROM meters m WHERE m.subject_id = $1",
            allocation.id,
        )
    assert len(row["pauses"]) == 3
    active = row["closed_at"] - row["opened_at"] - sum(row["pauses"], timedelta())
    assert row["billed_seconds"] == active // timedelta(seconds=1)
    assert row["billed_micros"] == row["billed_seconds"] * 3_600_000 // HOUR
    assert await ladder.ground.leftovers() == []


async def test_a_meter_that_goes_on_while_it_is_stopped_for_money_is_told(ladder: Ladder) -> None:
    allocation = await ladder.ground.active()
    await ladder.ground.stop(allocation.id)
    await ladder.ground.run()
    look = "SELECT problem FROM invariant_07_active_is_metered WHERE subject = $1"
    assert await ladder.sql.fetch(look, f"allocation {allocation.id}") == []
    within = ladder.sql.transaction()
    await within.start()
    await ladder.sql.execute(
        "DELETE FROM meter_pauses WHERE meter_id = (SELECT id FROM meters WHERE subject_id = $1)", allocation.id
    )
    told = [row["problem"] for row in await ladder.sql.fetch(look, f"allocation {allocation.id}")]
    await within.rollback()
    assert told == ["is stopped for want of money, and its meter goes on"]
