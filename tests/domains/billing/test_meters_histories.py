"""Two thousand meters with random lives, charged by passes that come at any time, die, run twice at once and meet
clocks that step. The oracle knows none of that: it counts the quarter seconds in which each was usable."""

import asyncio
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any
from uuid import UUID

import asyncpg

from gpuaas.domains.billing.meters.rating import Span, owed_micros, usable_seconds
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.ids import new_id
from tests.support.servers import DatabaseUrls
from tests.support.slot_yard import yard_of

METERS = 2_000
ORGS = 20
PASSES = 14
LONGEST = 4_000
TICK = timedelta(milliseconds=250)
TICKS_PER_SECOND = 4
START = datetime(2026, 1, 31, 23, 40, 1, 250_000, tzinfo=UTC)
RATES = (0, 1, 3_599, 3_500_000, 28_000_001, 10**12)
NOBODY = "'00000000-0000-0000-0000-000000000000'"
POST = f"SELECT posted FROM usage_post({NOBODY}, {NOBODY}, 10000, NULL, 'infinity', $1, 'test', 'test')"
OPEN = """
SELECT count(m) FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[], $5::uuid[])
    AS u (subject, org, project, rate, price),
LATERAL meter_open(uuidv7(), org, project, subject, $6, 1, price, rate, 'USD', 'ada', NULL, $7) AS m
"""
VERBS = {
    verb: f"SELECT count(m) FROM unnest($1::uuid[], $2::timestamptz[]) AS u (s, a), LATERAL {called} AS m"
    for verb, called in {
        "pause": "meter_pause(s, a, 'xid')",
        "resume": "meter_resume(s, a)",
        "stop": "meter_pause(s, a, 'stopped', 'stop')",
        "start": "meter_resume(s, a, 'stop')",
        "close": "meter_close(s, a, 'end')",
    }.items()
}


def at(tick: int) -> datetime:
    return START + tick * TICK


@dataclass
class Life:
    subject: UUID
    rate: int
    org: int
    length: int
    pauses: list[tuple[int, int]]
    # what becomes known when: pass number → verbs, in the order in which they are told
    told: dict[int, list[tuple[str, int]]] = field(default_factory=dict)

    def usable(self) -> set[int]:
        found = set(range(self.length))
        for begins, ends in self.pauses:
            found -= set(range(begins, ends))
        return found

    def price(self) -> int:
        return int(Fraction(self.rate, 3600) * (len(self.usable()) // TICKS_PER_SECOND))


def live(dice: random.Random) -> Life:
    made = Life(new_id(), dice.choice(RATES), dice.randrange(ORGS), dice.randrange(1, LONGEST), [])
    for begin, end in (("pause", "resume"), ("stop", "start")):  # these know nothing of each other, and overlap
        cuts = sorted(dice.sample(range(LONGEST), 2 * dice.choice((0, 0, 1, 2, 3))))
        pauses = list(zip(cuts[::2], cuts[1::2], strict=True))
        made.pauses.extend(pauses)
        events = [(begin, begins) if way else (end, ends) for begins, ends in pauses for way in (True, False)]
        heard = sorted(dice.randrange(PASSES) for _ in events)
        for number, (when, event) in enumerate(zip(heard, events, strict=True)):
            again = [events[dice.randrange(number)]] if number and dice.random() < 0.3 else []
            made.told.setdefault(when, []).extend([event, *again, *([event] if dice.random() < 0.3 else [])])
    # Its end is told once too late, perhaps, and then as it was; and told again.
    ends = dice.randrange(PASSES)
    if dice.random() < 0.3:
        made.told.setdefault(ends, []).append(("close", made.length + dice.randrange(1, 500)))
    made.told.setdefault(min(ends + dice.randrange(3), PASSES - 1), []).append(("close", made.length))
    made.told.setdefault(PASSES - 1, []).append(("close", made.length + 7))
    return made


async def tell(sql: Any, lives: list[Life], number: int) -> None:
    """Each meter's verbs in their order, those of all meters together."""
    told = [(life.subject, life.told.get(number, [])) for life in lives]
    for step in range(max(len(verbs) for _, verbs in told)):
        for verb, statement in VERBS.items():
            asked = [(s, at(verbs[step][1])) for s, verbs in told if step < len(verbs) and verbs[step][0] == verb]
            if asked:
                await sql.fetchval(statement, [s for s, _ in asked], [a for _, a in asked])


async def charge(dice: random.Random, sql: Any, other: Any, now: datetime) -> None:
    """A pass: one that is kept, one that dies before its commit, or two at once."""
    fate = dice.choice(("kept", "dies", "twice"))
    if fate == "dies":
        transaction = sql.transaction()
        await transaction.start()
        await sql.fetchval(POST, now)
        await transaction.rollback()
    elif fate == "twice":
        await asyncio.gather(sql.fetchval(POST, now), other.fetchval(POST, now + timedelta(milliseconds=1)))
    else:
        await sql.fetchval(POST, now)


async def opened(db: Database, urls: DatabaseUrls, sql: Any, lives: list[Life]) -> None:
    async with yard_of(db, urls.superuser) as yard:
        sku, tenants = await yard.sku(), [await yard.tenant(0) for _ in range(ORGS)]
    prices = {rate: new_id() for rate in RATES}
    for number, (rate, price_id) in enumerate(prices.items()):
        await sql.execute(
            "INSERT INTO sku_prices (id, sku_id, currency, micros_per_gpu_hour, valid_from, set_by) "
            "VALUES ($1, $2, 'USD', $3, now() + make_interval(days => $4), 'test')",
            price_id,
            sku.id,
            rate,
            number,
        )
    await sql.fetchval(
        OPEN,
        [life.subject for life in lives],
        [tenants[life.org].org_id for life in lives],
        [tenants[life.org].project_id for life in lives],
        [life.rate for life in lives],
        [prices[life.rate] for life in lives],
        sku.id,
        at(0),
    )


async def test_two_thousand_random_lives_cost_the_price_of_their_usable_seconds(db: Database, database: DatabaseUrls):
    dice = random.Random(20_260_131)
    lives = [live(dice) for _ in range(METERS)]
    sql, other = await asyncpg.connect(database.superuser), await asyncpg.connect(database.superuser)
    try:
        for connection in (sql, other):
            await connection.execute("SET app.org_id = '*'")
        await opened(db, database, sql, lives)
        for number in range(PASSES):
            await tell(sql, lives, number)
            await charge(dice, sql, other, at(dice.randrange(-500, 2 * LONGEST)))
        await sql.fetchval(POST, at(0))  # the last of all, by a clock that stepped back to the beginning
        rows = await sql.fetch(
            "SELECT m.subject_id, sum(u.micros)::bigint AS micros, sum(u.seconds)::bigint AS seconds, m.settled_at "
            "FROM meters m LEFT JOIN usage u ON u.meter_id = m.id GROUP BY m.id"
        )
        found = {row["subject_id"]: row for row in rows}
        wrong = [
            (life, dict(found[life.subject]))
            for life in lives
            if (found[life.subject]["micros"] or 0) != life.price()
            or (found[life.subject]["seconds"] or 0) != len(life.usable()) // TICKS_PER_SECOND
            or found[life.subject]["settled_at"] is None
        ]
        assert wrong == []
        # and the pure rule says the same as the database did
        for life in lives:
            spans = [Span(at(begins), at(ends)) for begins, ends in life.pauses]
            assert owed_micros(life.rate, usable_seconds(at(0), at(life.length), spans)) == life.price()
        await _the_books_hold(sql, sum(life.price() for life in lives))
    finally:
        await sql.close()
        await other.close()


async def _the_books_hold(sql: Any, total: int) -> None:
    paid = "SELECT -sum(amount_micros)::bigint FROM ledger_entries WHERE org_id IS NOT NULL"
    assert await sql.fetchval(paid) == total
    credited = "SELECT count(*) FROM ledger_transactions WHERE kind = 'usage_credit' AND reason LIKE 'usable for %'"
    assert await sql.fetchval(credited) > 100
    views = await sql.fetch("SELECT viewname FROM pg_views WHERE viewname ~ '^invariant_0[12378]_' ORDER BY 1")
    assert len(views) >= 9
    for (view,) in views:
        assert await sql.fetch(f"SELECT * FROM {view}") == [], view
