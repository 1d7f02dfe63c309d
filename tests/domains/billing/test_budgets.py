"""Budgets on the real database: what is told once, what is refused, what months are, and what bad input gets."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuaas.contracts.permissions import Role
from gpuaas.domains.billing.budgets import handlers
from gpuaas.domains.billing.budgets import service as budgets
from gpuaas.domains.billing.meters import service as meters
from gpuaas.domains.billing.meters.rating import Span, owed_micros, usable_seconds
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.ids import new_id
from tests.support.people import refusal
from tests.support.purse import Purse, purse_of
from tests.support.servers import DatabaseUrls
from tests.support.spender import HOURLY, UNIT, Spender, spender_of

HUGE = 10**6 * UNIT
MONTH = """
SELECT extract(epoch FROM clock_timestamp() - month_of(clock_timestamp()))::bigint,
       to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM')
"""


@pytest.fixture(scope="module")
async def purse(db: Database) -> AsyncIterator[Purse]:
    async with purse_of(db) as made:
        yield made


@pytest.fixture
async def sql(database: DatabaseUrls) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database.superuser)
    await connection.execute("SET app.org_id = '*'")
    yield connection
    await connection.close()


@pytest.fixture
async def spender(purse: Purse) -> Spender:
    return await spender_of(purse)


async def put(spender: Spender, *, status: int = 200, **wanted: Any) -> Any:
    path = f"/orgs/{spender.purse.org_id}/budgets"
    body = {"project_id": str(spender.project_id)} | wanted
    answer = await spender.purse.city.ask(spender.purse.owner, "PUT", path, body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def told(spender: Spender) -> list[tuple[str, int]]:
    events = await spender.told("billing.budget_reached", spender.project_id)
    return [(event["limit"], event["percent"]) for event in events]


async def look(spender: Spender) -> int:
    return await budgets.follow(spender.purse.db, spender.purse.city.policy)


async def test_each_part_of_a_budget_is_told_once_however_often_it_is_looked_at(spender: Spender):
    await put(spender, soft_micros=10 * UNIT, hard_micros=20 * UNIT)
    for seconds, reached in ((4, []), (1, [("soft", 50)]), (2, []), (1, [("soft", 80)]), (2, [("soft", 100)])):
        before = await told(spender)
        await spender.used(seconds)
        await asyncio.gather(*(look(spender) for _ in range(4)))
        assert await told(spender) == before + reached
    await spender.used(10)
    await handlers.budgets_follow(spender.purse.city.parts)
    assert (await told(spender))[-1] == ("hard", 100)
    assert len(await told(spender)) == 4


async def test_with_the_hard_limit_reached_nothing_new_begins_until_it_is_raised(spender: Spender):
    await put(spender, hard_micros=5 * UNIT)
    path, wanted = f"/projects/{spender.project_id}/allocations", {"sku_id": str(spender.sku_id)}
    await spender.purse.top_up(HUGE)
    city, owner = spender.purse.city, spender.purse.owner
    assert refusal(await city.ask(owner, "POST", path, wanted))[1] == "ssh_key_required"
    await spender.used(5)
    answer = await city.ask(owner, "POST", path, wanted)
    assert refusal(answer) == (409, "budget_spent")
    assert "5.00 USD" in answer.json()["error"]["message"]
    await put(spender, hard_micros=500_000 * UNIT)
    assert refusal(await city.ask(owner, "POST", path, wanted))[1] == "ssh_key_required"


async def test_what_runs_is_to_be_stopped_after_the_grace_and_not_once_the_limit_is_raised(spender: Spender, sql: Any):
    async def overdue() -> bool:
        async with spender.purse.db.read(Sight(PLATFORM)) as tx:
            return spender.project_id in {budget.project_id for budget in await budgets.overdue(tx)}

    await spender.used(5)
    shown = await put(spender, hard_micros=5 * UNIT)
    assert shown["spent"] is True
    assert shown["stops_at"] is not None
    assert not await overdue()
    await sql.execute(
        "UPDATE budget_marks SET due_at = due_at - interval '61 minutes' WHERE project_id = $1", spender.project_id
    )
    assert await overdue()
    shown = await put(spender, hard_micros=500_000 * UNIT)
    assert (shown["spent"], shown["stops_at"]) == (False, None)
    assert not await overdue()


async def test_a_limit_that_is_changed_is_told_of_again_and_one_that_is_changed_back_is_not(spender: Spender):
    await spender.used(10)
    await put(spender, soft_micros=10 * UNIT)
    await put(spender, soft_micros=15 * UNIT)
    await put(spender, soft_micros=10 * UNIT)
    assert await told(spender) == [("soft", 100), ("soft", 50)]


async def test_of_a_meter_that_ran_before_the_month_only_this_months_seconds_count(spender: Spender, sql: Any):
    await spender.used(70 * 86_400)
    before, month = await sql.fetchrow(MONTH)
    shown = await put(spender, soft_micros=HUGE)
    assert shown["spent_micros"] <= (before + 1) * UNIT
    assert shown["spent_micros"] > (before - 60) * UNIT
    assert shown["month"] == month


async def test_in_the_next_month_all_is_told_again(spender: Spender, sql: Any):
    await spender.used(6)
    await put(spender, soft_micros=5 * UNIT, hard_micros=6 * UNIT)
    assert sorted(await told(spender)) == [("hard", 100), ("soft", 100)]
    await sql.execute(
        "UPDATE budget_marks SET month = month - interval '1 month' WHERE project_id = $1", spender.project_id
    )
    await look(spender)
    await look(spender)
    assert sorted(await told(spender)) == [("hard", 100)] * 2 + [("soft", 100)] * 2


_BASE = datetime(2025, 1, 1, tzinfo=UTC)
_AT = st.integers(0, 120 * 86_400)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    lives=st.lists(st.tuples(_AT, _AT, st.lists(_AT, max_size=4)), min_size=1, max_size=3),
    cuts=st.lists(_AT, min_size=1, max_size=5),
)
async def test_months_sum_to_the_price_of_all_seconds(
    spender: Spender, sql: Any, lives: list[tuple[int, int, list[int]]], cuts: list[int]
):
    """However time is cut, what is spent in the parts is what is spent in all, and each part is as the rating says."""
    project_id = new_id()
    await sql.execute(
        "INSERT INTO projects (id, org_id, name, title) VALUES ($1, $2, $3, 'P')",
        project_id,
        spender.purse.org_id,
        f"p-{project_id.hex}",
    )

    def instant(seconds: int) -> datetime:
        return _BASE + timedelta(seconds=seconds)

    known: list[tuple[datetime, datetime, list[Span]]] = []
    for one, two, stops in lives:
        began, ended = instant(min(one, two)), instant(max(one, two))
        subject = await spender.meter(project_id=project_id, at=began)
        marks = sorted({stop for stop in stops if began < instant(stop) < ended})
        pauses = [Span(instant(a), instant(b)) for a, b in zip(marks[::2], marks[1::2], strict=False)]
        async with spender.purse.writing() as tx:
            for pause in pauses:
                await meters.meter_pause(tx, subject, at=pause.from_at, reason="a fault")
                assert pause.until_at is not None
                await meters.meter_resume(tx, subject, at=pause.until_at)
            await meters.meter_close(tx, subject, at=ended, reason="release")
        known.append((began, ended, pauses))

    def owed(until: datetime) -> int:
        return sum(
            owed_micros(HOURLY, usable_seconds(began, min(until, ended), pauses)) if until > began else 0
            for began, ended, pauses in known
        )

    edges = [instant(-1), *(instant(cut) for cut in sorted(cuts)), instant(121 * 86_400)]
    parts = [
        await sql.fetchval("SELECT project_spent($1, 'USD', $2, $3)", project_id, a, b)
        for a, b in itertools.pairwise(edges)
    ]
    assert parts == [owed(b) - owed(a) for a, b in itertools.pairwise(edges)]
    assert sum(parts) == owed(edges[-1])


async def test_bad_budgets_are_refused_with_their_own_code(spender: Spender, purse: Purse):
    for bad, code in (
        ({}, "budget_refused"),
        ({"soft_micros": 2, "hard_micros": 1}, "budget_refused"),
        ({"soft_micros": 0}, "request_invalid"),
        ({"soft_micros": -5}, "request_invalid"),
        ({"hard_micros": 10**16}, "request_invalid"),
        ({"hard_micros": "1"}, "request_invalid"),
        ({"soft_micros": 1, "currency": "usd"}, "request_invalid"),
        ({"soft_micros": 1, "forever": True}, "request_invalid"),
    ):
        assert (await put(spender, status=422, **bad))["error"]["code"] == code
    stranger = await spender_of(purse)
    assert (await put(spender, status=404, soft_micros=1, project_id=str(stranger.project_id)))["error"]["code"] == (
        "project_missing"
    )
    assert (await put(spender, status=404, soft_micros=1, project_id=str(new_id())))["error"][
        "code"
    ] == "project_missing"


async def test_a_budget_is_shown_listed_and_taken_away_by_those_who_look_after_money(spender: Spender, purse: Purse):
    city, owner, org = purse.city, spender.purse.owner, await purse.city.org(spender.purse.owner)
    project = (await city.made(owner, f"/orgs/{org}/projects", {"name": "research"}))["id"]
    billing, member = await city.person("billing"), await city.person("member")
    await city.join(owner, org, billing, Role.BILLING.value)
    await city.join(owner, org, member, Role.MEMBER.value)
    path, wanted = f"/orgs/{org}/budgets", {"project_id": project, "soft_micros": UNIT, "hard_micros": 2 * UNIT}
    assert (await city.ask(member, "PUT", path, wanted)).status_code == 403
    made = (await city.ask(billing, "PUT", path, wanted)).json()
    again = (await city.ask(owner, "PUT", path, wanted | {"soft_micros": None})).json()
    assert (made["id"], again["soft_micros"], again["hard_micros"]) == (again["id"], None, 2 * UNIT)
    assert [one["project"] for one in (await city.get(billing, path))["items"]] == ["research"]
    assert (await city.get(billing, path, project_id=str(new_id())))["items"] == []
    assert (await city.get(billing, f"{path}/{made['id']}"))["percent"] == 0
    assert (await city.ask(member, "DELETE", f"{path}/{made['id']}")).status_code == 403
    assert (await city.ask(billing, "DELETE", f"{path}/{made['id']}")).status_code == 200
    assert refusal(await city.ask(billing, "GET", f"{path}/{made['id']}")) == (404, "budget_missing")
    assert refusal(await city.ask(billing, "DELETE", f"{path}/{made['id']}")) == (404, "budget_missing")


async def test_pages_leave_no_budget_out(purse: Purse):
    crowd = [await spender_of(purse) for _ in range(3)]
    for one in crowd:
        await put(one, soft_micros=1)
        await one.used(1)
    await budgets.follow(purse.db, purse.city.policy, page=1)
    assert [await told(one) for one in crowd] == [[("soft", 100)]] * 3
