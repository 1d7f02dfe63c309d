"""How organisations stand, on the real database: the ladder down and back, races, passes that die, and what is told."""

import asyncio
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from gpuaas.contracts.http.standing import Rung
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.domains.billing.standing import handlers
from gpuaas.domains.billing.standing import service as standing
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from tests.support.people import refusal
from tests.support.purse import Purse, purse_of
from tests.support.servers import DatabaseUrls
from tests.support.spender import UNIT, Spender, spender_of, top_up

HOUR, DAY = 3_600, 86_400
LATER = """
UPDATE standings SET state_since = state_since - make_interval(secs => $2), due_at = due_at - make_interval(secs => $2),
    counting_since = counting_since - make_interval(secs => $2) WHERE org_id = $1
"""
LOOK = """
import asyncio, sys
from gpuaas.domains.billing.standing import service
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.infra.postgres.database import Database
async def main():
    db = Database(sys.argv[1])
    await db.open()
    print("looks", flush=True)
    while True:
        await service.follow(db, MemoryPolicy())
asyncio.run(main())
"""
SWEPT = "DELETE FROM standings"


@pytest.fixture(scope="module")
async def purse(db: Database) -> AsyncIterator[Purse]:
    async with purse_of(db) as made:
        yield made


@pytest.fixture
async def sql(database: DatabaseUrls) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database.superuser)
    yield connection
    await connection.close()


class Life:
    """Somebody who spends, and the hand that moves his clock."""

    def __init__(self, spender: Spender, sql: Any) -> None:
        self.spender, self.sql = spender, sql

    async def pass_time(self, seconds: float) -> None:
        """For the ladder: what it waits for comes so much nearer."""
        await self.sql.execute(LATER, self.spender.purse.org_id, float(seconds))

    async def look(self) -> Rung:
        await self.spender.look()
        return (await self.spender.stands()).rung

    async def left(self) -> float:
        """Seconds until the next rung."""
        found = await self.spender.facts()
        assert found.due_at is not None
        return (found.due_at - found.now).total_seconds()

    async def down_to(self, rung: Rung) -> None:
        """Something runs, and the money is over."""
        await self.spender.gets(1)
        await self.spender.meter(ago=10)
        assert await self.look() is Rung.EMPTY
        for lasts, reached in ((15 * 60, Rung.STOPPED), (DAY, Rung.RELEASED)):
            if (await self.spender.stands()).rung is rung:
                return
            await self.pass_time(lasts + 1)
            assert await self.look() is reached

    async def changes(self) -> list[tuple[str, str]]:
        return [(one["was"], one["rung"]) for one in await self.spender.told("billing.standing_changed")]


@pytest.fixture
async def life(purse: Purse, sql: Any) -> Life:
    return Life(await spender_of(purse), sql)


async def test_without_anything_an_organisation_is_good_and_not_looked_at(life: Life):
    assert await life.look() is Rung.GOOD
    assert (await life.spender.stands()).since is None
    assert await life.changes() == []


async def test_the_ladder_goes_down_rung_by_rung_and_each_is_told_once(life: Life):
    await life.spender.gets(2 * DAY * UNIT)
    meter = await life.spender.meter()
    assert await life.look() is Rung.GOOD
    await life.spender.owes(DAY * UNIT + 2 * HOUR * UNIT)
    assert [await life.look() for _ in range(3)] == [Rung.LOW] * 3
    await life.spender.owes(DAY * UNIT)
    assert [await life.look() for _ in range(3)] == [Rung.EMPTY] * 3
    await life.pass_time(8 * 60)
    await life.look()
    await life.pass_time(6 * 60)
    assert [await life.look() for _ in range(2)] == [Rung.EMPTY] * 2
    await life.pass_time(60)
    assert [await life.look() for _ in range(3)] == [Rung.STOPPED] * 3
    await life.pass_time(DAY)
    assert [await life.look() for _ in range(3)] == [Rung.RELEASED] * 3
    assert await life.changes() == [("good", "low"), ("low", "empty"), ("empty", "stopped"), ("stopped", "released")]
    counted = [(one["rung"], one["next_rung"]) for one in await life.spender.told("billing.countdown")]
    assert counted == [("empty", "stopped")] * 2
    await life.spender.close(meter)
    assert await life.look() is Rung.RELEASED


@pytest.mark.parametrize("rung", [Rung.EMPTY, Rung.STOPPED, Rung.RELEASED])
async def test_a_top_up_at_any_rung_stops_the_ladder_in_its_own_transaction(life: Life, rung: Rung):
    await life.down_to(rung)
    await life.spender.gets(5 * DAY * UNIT)
    stands = await life.spender.stands()
    assert (stands.rung, stands.due_at) == (Rung.GOOD, None)
    assert (await life.changes())[-1] == (rung.value, "good")
    await life.pass_time(10 * DAY)
    assert await life.look() is Rung.GOOD


async def test_a_top_up_that_lasts_for_hours_leads_to_low_and_one_that_does_not_cover_the_debt_to_nothing(life: Life):
    await life.down_to(Rung.STOPPED)
    await life.spender.owes(HOUR * UNIT)
    await life.spender.gets(UNIT)
    assert (await life.spender.stands()).rung is Rung.STOPPED
    await life.spender.gets(3 * HOUR * UNIT)
    assert (await life.spender.stands()).rung is Rung.LOW


async def test_low_is_told_once_until_a_quarter_more_than_its_measure_is_there(life: Life):
    await life.spender.gets(23 * HOUR * UNIT)
    await life.spender.meter()
    assert await life.look() is Rung.LOW
    await life.spender.gets(3 * HOUR * UNIT)  # 26 hours
    assert await life.look() is Rung.LOW
    await life.spender.gets(5 * HOUR * UNIT)  # 31 hours
    assert await life.look() is Rung.GOOD
    await life.spender.owes(8 * HOUR * UNIT)
    assert await life.look() is Rung.LOW
    assert await life.changes() == [("good", "low"), ("low", "good"), ("good", "low")]


async def test_what_is_low_stays_low_while_nothing_runs_unless_money_comes(life: Life):
    await life.spender.gets(HOUR * UNIT)
    meter = await life.spender.meter()
    assert await life.look() is Rung.LOW
    await life.spender.close(meter)
    assert await life.look() is Rung.LOW
    await life.spender.gets(HOUR * UNIT)
    assert (await life.spender.stands()).rung is Rung.GOOD


async def test_nothing_is_counted_while_nothing_runs(life: Life):
    await life.spender.owes(UNIT)
    await life.spender.refresh()
    stands = await life.spender.stands()
    assert (stands.rung, stands.due_at) == (Rung.EMPTY, None)
    meter = await life.spender.meter()
    await life.look()
    assert (await life.spender.stands()).due_at is not None
    assert len(await life.spender.told("billing.countdown")) == 1
    await life.spender.close(meter)
    await life.look()
    assert (await life.spender.stands()).due_at is None
    await life.pass_time(DAY)
    assert await life.look() is Rung.EMPTY


async def test_a_clock_that_leaps_skips_no_rung_and_shortens_no_grace(life: Life):
    await life.down_to(Rung.EMPTY)
    await life.pass_time(30 * DAY)
    assert [await life.look() for _ in range(2)] == [Rung.STOPPED] * 2
    assert await life.left() > DAY - 60
    await life.pass_time(-40 * DAY)  # and back
    assert await life.look() is Rung.STOPPED
    assert await life.left() <= DAY


async def test_what_is_set_aside_counts_and_a_line_of_credit_too(life: Life, purse: Purse):
    path = f"/admin/orgs/{life.spender.purse.org_id}/credit-line"
    body = {"credit_line_micros": 100 * DAY * UNIT, "reason": "an invoice is paid later"}
    assert (await purse.city.ask(purse.admin, "PUT", path, body)).status_code == 200
    await life.spender.meter(ago=100)
    assert await life.look() is Rung.GOOD


async def test_an_adjustment_stops_the_ladder_at_once_and_can_begin_it(life: Life, purse: Purse):
    await life.down_to(Rung.STOPPED)
    path = f"/admin/orgs/{life.spender.purse.org_id}/adjustments"
    body = {"amount_micros": 90 * UNIT, "reason": "goodwill"}
    await purse.city.made(purse.admin, path, body)
    assert (await life.spender.stands()).rung is Rung.LOW
    large = {"amount_micros": 9 * DAY * UNIT, "reason": "goodwill"}
    proposed = await purse.city.made(purse.admin, path, large)
    assert (await life.spender.stands()).rung is Rung.LOW
    approve = f"/admin/adjustments/{proposed['id']}/approve"
    answer = await purse.city.ask(purse.second_admin, "POST", approve, {"reason": "agreed"})
    assert answer.status_code == 200, answer.text
    assert (await life.spender.stands()).rung is Rung.GOOD


async def test_workers_at_once_move_a_rung_once(life: Life):
    await life.spender.meter(ago=5)
    await asyncio.gather(*(life.spender.look() for _ in range(8)))
    await life.pass_time(16 * 60)
    await asyncio.gather(*(life.spender.look() for _ in range(8)))
    assert await life.changes() == [("good", "empty"), ("empty", "stopped")]


async def test_a_pass_that_dies_before_its_end_leaves_whole_rungs_with_their_events(life: Life):
    await life.spender.meter(ago=5)
    for _ in range(20):
        task = asyncio.create_task(life.spender.look())
        await asyncio.sleep(0.002)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert [("good", "empty")] * ((await life.spender.stands()).rung is Rung.EMPTY) == await life.changes()
    assert await life.look() is Rung.EMPTY
    assert await life.changes() == [("good", "empty")]


async def killed(url: str, *, after: float) -> None:
    """A program that looks without a pause, killed so many seconds after it began to."""
    program = await asyncio.create_subprocess_exec(sys.executable, "-c", LOOK, url, stdout=asyncio.subprocess.PIPE)
    assert program.stdout is not None
    await program.stdout.readline()
    await asyncio.sleep(after)
    program.kill()
    await program.wait()


async def test_workers_that_are_killed_leave_each_rung_told_once(life: Life, database: DatabaseUrls):
    """Two programs look without a pause, and one after the other is killed, wherever it is."""
    await life.spender.gets(1)
    await life.spender.meter(ago=10)
    for reached, lasts in ((Rung.EMPTY, 16 * 60), (Rung.STOPPED, DAY + 60), (Rung.RELEASED, 0)):
        for attempt in range(5):
            await asyncio.gather(*(killed(database.app, after=0.01 * attempt + 0.004 * i) for i in range(2)))
            if (await life.spender.stands()).rung is reached:
                break
        await life.spender.look()
        assert (await life.spender.stands()).rung is reached
        await life.pass_time(lasts)
    assert await life.changes() == [("good", "empty"), ("empty", "stopped"), ("stopped", "released")]


async def test_a_top_up_that_races_the_next_rung_wins_whoever_commits_first(life: Life):
    for _ in range(10):
        await life.sql.execute(SWEPT)
        await life.sql.execute("DELETE FROM outbox")
        facts = await life.spender.facts()
        if facts.running == 0:
            await life.spender.meter(ago=5)
        if facts.spendable_micros > 0:
            await life.spender.owes(facts.spendable_micros)
        assert await life.look() is Rung.EMPTY
        await life.pass_time(16 * 60)
        await asyncio.gather(life.spender.look(), life.spender.gets(9 * DAY * UNIT), life.spender.look())
        assert (await life.spender.stands()).rung is Rung.GOOD
        assert await life.changes() in (
            [("good", "empty"), ("empty", "good")],
            [("good", "empty"), ("empty", "stopped"), ("stopped", "good")],
        )


async def test_money_that_is_posted_and_not_committed_waits_for_nobody_and_is_seen(life: Life):
    """The pass moves a rung while a top-up is under way; the top-up then knows of it."""
    await life.down_to(Rung.EMPTY)
    await life.pass_time(16 * 60)
    async with life.spender.purse.writing() as tx:
        await ledger.post(tx, top_up(life.spender.purse.org_id, 9 * DAY * UNIT))
        assert await life.look() is Rung.STOPPED
        await standing.refresh(tx, life.spender.purse.city.policy, life.spender.purse.org_id)
    assert (await life.spender.stands()).rung is Rung.GOOD


async def test_an_operator_gives_time_and_takes_it_back(life: Life, purse: Purse):
    await life.down_to(Rung.EMPTY)
    path = f"/admin/orgs/{life.spender.purse.org_id}/standing-pause"
    now = (await life.spender.facts()).now
    for bad in (now, now + timedelta(days=91)):
        asked = {"until": bad.isoformat(), "reason": "their transfer comes"}
        assert refusal(await purse.city.ask(purse.admin, "PUT", path, asked)) == (422, "standing_pause_refused")
    asked = {"until": (now + timedelta(days=2)).isoformat(), "reason": "their transfer comes"}
    answer = await purse.city.ask(purse.admin, "PUT", path, asked)
    assert answer.status_code == 200, answer.text
    [shown] = answer.json()["standings"]
    assert (shown["rung"], shown["due_at"], shown["paused_until"]) == ("empty", shown["paused_until"], shown["due_at"])
    await life.pass_time(16 * 60)
    assert await life.look() is Rung.EMPTY
    answer = await purse.city.ask(purse.admin, "PUT", path, {"until": None, "reason": "it did not come"})
    assert answer.json()["standings"][0]["paused_until"] is None
    await life.pass_time(16 * 60)
    assert await life.look() is Rung.STOPPED


async def test_what_is_shown_says_what_comes_next_and_how_to_stop_it(life: Life, purse: Purse):
    await life.down_to(Rung.STOPPED)
    path = f"/orgs/{life.spender.purse.org_id}/standing"
    [shown] = (await purse.city.get(life.spender.purse.owner, path))["standings"]
    assert (shown["rung"], shown["next_rung"], shown["currency"]) == ("stopped", "released", "USD")
    assert shown["spendable_micros"] < 0
    assert shown["runway_seconds"] == 0
    assert "Top up" in shown["advice"]
    [fresh] = (await purse.city.get(purse.owner, f"/orgs/{purse.org_id}/standing"))["standings"]
    assert (fresh["rung"], fresh["since"], fresh["runway_seconds"]) == ("good", None, None)


async def test_the_timer_looks(life: Life):
    await life.spender.meter(ago=5)
    await handlers.standings_follow(life.spender.purse.city.parts)
    assert (await life.spender.stands()).rung is Rung.EMPTY
    async with life.spender.purse.db.read(Sight(PLATFORM)) as tx:
        assert life.spender.purse.org_id in [place.org_id for place in await standing.at(tx, Rung.EMPTY)]


async def test_pages_leave_nobody_out(purse: Purse):
    crowd = [await spender_of(purse) for _ in range(5)]
    for one in crowd:
        await one.meter(ago=5)
    await standing.follow(purse.db, purse.city.policy, page=2)
    assert [(await one.stands()).rung for one in crowd] == [Rung.EMPTY] * 5


@pytest.mark.parametrize(
    ("view", "how"),
    [
        ("invariant_14_standings_move", "UPDATE standings SET due_at = now() - interval '2 minutes' WHERE org_id = $1"),
        (
            "invariant_38_standing_is_balance",
            "UPDATE standings SET state = 'good', due_at = NULL, counting_since = NULL, "
            "state_since = now() - interval '2 minutes' WHERE org_id = $1",
        ),
    ],
)
async def test_each_invariant_of_standing_is_told_when_it_breaks(life: Life, view: str, how: str):
    await life.spender.meter(ago=300)
    assert await life.look() is Rung.EMPTY
    subject = f"organisation {life.spender.purse.org_id}"
    assert subject not in {row["subject"] for row in await life.sql.fetch(f"SELECT subject FROM {view}")}
    await life.sql.execute(how, life.spender.purse.org_id)
    assert subject in {row["subject"] for row in await life.sql.fetch(f"SELECT subject FROM {view}")}
    await life.sql.execute(SWEPT)


async def test_a_rung_that_stays_down_although_money_is_there_is_told(life: Life):
    """Not in the first minute after it came: the pass has its time."""
    view = "SELECT subject FROM invariant_38_standing_is_balance"
    subject = f"organisation {life.spender.purse.org_id}"
    await life.down_to(Rung.EMPTY)
    await life.pass_time(120)
    await life.spender.purse.top_up(9 * DAY * UNIT)
    assert subject not in {row["subject"] for row in await life.sql.fetch(view)}
    org = life.spender.purse.org_id
    await life.sql.execute("SET session_replication_role = replica")
    await life.sql.execute(
        "UPDATE ledger_transactions SET kind = 'usage' WHERE org_id = $1 AND kind = 'top_up'", org
    )  # as if it were no news
    assert subject in {row["subject"] for row in await life.sql.fetch(view)}
    await life.sql.execute("UPDATE ledger_transactions SET kind = 'top_up' WHERE org_id = $1 AND kind = 'usage'", org)
    await life.sql.execute("SET session_replication_role = DEFAULT")
    await life.sql.execute(SWEPT)


@pytest.mark.parametrize("rung", [Rung.EMPTY, Rung.STOPPED, Rung.RELEASED])
async def test_nothing_new_begins_while_the_balance_is_used_up(life: Life, purse: Purse, rung: Rung):
    await life.down_to(rung)
    path, wanted = f"/projects/{life.spender.project_id}/allocations", {"sku_id": str(life.spender.sku_id)}
    answer = await purse.city.ask(life.spender.purse.owner, "POST", path, wanted)
    assert refusal(answer) == (409, "balance_empty")
    assert "Top it up" in answer.json()["error"]["message"]
    await life.spender.gets(DAY * UNIT)
    answer = await purse.city.ask(life.spender.purse.owner, "POST", path, wanted)
    assert refusal(answer)[1] == "ssh_key_required"
