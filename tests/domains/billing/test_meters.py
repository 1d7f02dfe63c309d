"""Meters on the real database, by its clock: what verbs do when they come twice, late or at once; what is posted when
passes die; and that nobody writes around it."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from gpuaas.domains.billing.meters import service
from gpuaas.domains.billing.meters.models import Cost, Meter, MeterWanted
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.ids import new_id
from tests.support.servers import DatabaseUrls
from tests.support.slot_yard import Tenant, Yard, yard_of

RATE = 3_600 * 1_000
"""A thousand micro-units a second, so that prices are read off."""
EVERYTHING = Sight(PLATFORM)
ACCRUE = """
import asyncio, sys
from gpuaas.domains.billing.meters import service
from gpuaas.infra.postgres.database import Database
async def main():
    db = Database(sys.argv[1])
    await db.open()
    while True:
        await service.accrue(db, window_seconds=1, batch=20)
asyncio.run(main())
"""


@pytest.fixture(scope="module")
async def yard(db: Database, database: DatabaseUrls) -> AsyncIterator[Yard]:
    async with yard_of(db, database.superuser) as made:
        await made.sql.execute("SET app.org_id = '*'")
        yield made


class Site:
    """A tenant, and what is sold to him at RATE for a GPU."""

    def __init__(self, yard: Yard, who: Tenant, sku_id: UUID, price_id: UUID, began: datetime) -> None:
        self.db, self.sql, self.who, self._sku, self._price = yard.db, yard.sql, who, sku_id, price_id
        self.began = began
        """By the database's clock: what happened so many seconds `ago` did so before the test began."""

    async def now(self) -> datetime:
        found: datetime = await self.sql.fetchval("SELECT clock_timestamp()")
        return found

    async def open(self, ago: float = 100, **changed: Any) -> UUID:
        """Since so many seconds."""
        wanted: dict[str, Any] = {
            "subject_id": new_id(),
            "org_id": self.who.org_id,
            "project_id": self.who.project_id,
            "sku_id": self._sku,
            "gpus": 1,
            "price_id": self._price,
            "micros_per_gpu_hour": RATE,
            "currency": "USD",
            "asked_by": "ada",
        } | changed
        at = self.began - timedelta(seconds=ago)
        async with self.db.transaction(self.who.sight, "test") as tx:
            return (await service.meter_open(tx, MeterWanted(**wanted), at=at)).subject_id

    async def do(self, verb: Any, subject_id: UUID, ago: float = 0, **more: Any) -> Meter:
        at = {} if verb is service.meter_settle else {"at": self.began - timedelta(seconds=ago)}
        async with self.db.transaction(self.who.sight, "test") as tx:
            found: Meter = await verb(tx, subject_id, **at, **more)
        return found

    async def cost(self, subject_id: UUID) -> Cost:
        async with self.db.read(self.who.sight) as tx:
            found = await service.meter_cost(tx, subject_id)
        assert found is not None
        return found

    async def usage(self, subject_id: UUID) -> list[Any]:
        return list(
            await self.sql.fetch(
                "SELECT u.* FROM usage u JOIN meters m ON m.id = u.meter_id WHERE m.subject_id = $1 ORDER BY number",
                subject_id,
            )
        )

    async def balance(self) -> int:
        return int(
            await self.sql.fetchval(
                "SELECT coalesce(sum(amount_micros), 0) FROM ledger_entries WHERE org_id = $1", self.who.org_id
            )
        )

    async def broken(self) -> list[str]:
        views = await self.sql.fetch("SELECT viewname FROM pg_views WHERE viewname ~ '^invariant_0[12378]_'")
        return [str(row) for (view,) in views for row in await self.sql.fetch(f"SELECT * FROM {view}")]


@pytest.fixture
async def site(yard: Yard) -> Site:
    sku, price_id = await yard.sku(), new_id()
    await yard.sql.execute(
        "INSERT INTO sku_prices (id, sku_id, currency, micros_per_gpu_hour, valid_from, set_by) "
        "VALUES ($1, $2, 'USD', $3, now(), 'test')",
        price_id,
        sku.id,
        RATE,
    )
    began = await yard.sql.fetchval("SELECT clock_timestamp()")
    return Site(yard, await yard.tenant(0), sku.id, price_id, began)


async def test_the_exact_seconds_are_charged_once_whatever_is_told_twice(site: Site):
    subject = await site.open(ago=100)
    for _ in range(2):
        await site.do(service.meter_settle, subject)
    closed = await site.do(service.meter_close, subject, ago=10, reason="release")
    for verb in (service.meter_close, service.meter_close):
        await site.do(verb, subject, ago=3, reason="told later")
    await site.do(service.meter_settle, subject)
    again = await site.do(service.meter_settle, subject)
    assert closed.close_reason == "release"
    assert (again.billed_seconds, again.billed_micros) == (90, 90_000)
    assert (again.closed_at, again.close_reason) == (closed.closed_at, "release")
    assert await site.balance() == -90_000
    assert await site.broken() == []


async def test_a_subject_keeps_the_meter_and_the_price_it_began_with(site: Site):
    subject = await site.open(ago=50)
    again = await site.open(ago=10, subject_id=subject, gpus=8, micros_per_gpu_hour=9 * RATE)
    async with site.db.read(site.who.sight) as tx:
        cost = await service.meter_cost(tx, again)
    assert cost is not None
    assert cost.micros_per_hour == RATE
    assert cost.seconds >= 50


async def test_no_meter_begins_or_ends_in_the_future(site: Site):
    subject = await site.open(ago=-500)
    closed = await site.do(service.meter_close, subject, ago=-900, reason="release")
    assert closed.closed_at is not None
    assert closed.opened_at <= closed.closed_at <= await site.now()


async def test_a_fault_found_late_stops_the_clock_at_the_last_good_proof_and_a_credit_says_why(site: Site):
    subject = await site.open(ago=100)
    await site.do(service.meter_settle, subject)
    await site.do(service.meter_pause, subject, ago=40, reason="XID 79")
    settled = await site.do(service.meter_settle, subject)
    assert settled.billed_seconds == 60
    cost = await site.cost(subject)
    assert cost.paused
    assert cost.micros == settled.billed_micros
    credit = (await site.usage(subject))[-1]
    assert credit["micros"] < 0
    told = await site.sql.fetchrow("SELECT * FROM ledger_transactions WHERE id = $1", credit["transaction_id"])
    assert told is not None
    assert told["kind"] == "usage_credit"
    assert told["subject_id"] == subject
    assert "out of order" in told["reason"]
    await site.do(service.meter_resume, subject, ago=0)
    assert not (await site.cost(subject)).paused
    assert await site.broken() == []


async def test_what_ended_before_the_last_charge_is_given_back(site: Site):
    subject = await site.open(ago=100)
    await site.do(service.meter_settle, subject)
    await site.do(service.meter_close, subject, ago=70, reason="node lost")
    settled = await site.do(service.meter_settle, subject)
    assert settled.billed_seconds == 30
    assert await site.balance() == -settled.billed_micros
    reason = await site.sql.fetchval(
        "SELECT reason FROM ledger_transactions WHERE subject_id = $1 AND kind = 'usage_credit'", subject
    )
    assert "node lost" in reason
    # A still earlier sign of the end, after all was settled, is a credit again.
    await site.do(service.meter_close, subject, ago=90, reason="last proof of life")
    assert (await site.do(service.meter_settle, subject)).billed_seconds == 10
    assert await site.broken() == []


async def test_what_ended_is_charged_to_its_end_by_a_clock_that_stepped_back_behind_it(site: Site):
    subject = await site.open(100)
    await site.do(service.meter_close, subject, 40, reason="released")
    meter_id = await site.sql.fetchval("SELECT id FROM meters WHERE subject_id = $1", subject)
    await site.sql.fetchval(
        "SELECT usage_post($1, $1, 1, $2, 'infinity', $3, 'test', 'test')",
        UUID(int=0),
        meter_id,
        site.began - timedelta(seconds=70),
    )
    assert [(row["seconds"], row["micros"]) for row in await site.usage(subject)] == [(60, 60_000)]
    assert (await site.cost(subject)).micros == 60_000
    assert await site.broken() == []


async def test_a_row_of_usage_has_the_instant_of_its_transaction(site: Site):
    """So that what was used in a month is what the ledger took in it, at midnight, too."""
    subjects = [await site.open(100) for _ in range(20)]
    await service.accrue(site.db, window_seconds=1)
    await site.do(service.meter_close, subjects[0], 40, reason="released")
    await service.accrue(site.db, window_seconds=1)
    rows = await site.sql.fetch(
        "SELECT uuid_extract_timestamp(id) AS at, uuid_extract_timestamp(transaction_id) AS posted_at FROM usage "
        "WHERE org_id = $1",
        site.who.org_id,
    )
    assert len(rows) > 20
    assert [row["at"] for row in rows] == [row["posted_at"] for row in rows]


async def test_pauses_told_twice_out_of_order_or_overlapping_are_one(site: Site):
    subject, start = await site.open(ago=100), site.began

    async def tell(verb: Any, ago: float, **more: Any) -> None:
        async with site.db.transaction(site.who.sight, "test") as tx:
            await verb(tx, subject, at=start - timedelta(seconds=ago), **more)

    for ago in (60, 60, 50, 70):  # the last one: it began earlier than was thought
        await tell(service.meter_pause, ago, reason="fault")
    for ago in (40, 40, 30):
        await tell(service.meter_resume, ago)
    for ago in (60, 70, 41):
        await tell(service.meter_pause, ago, reason="told again")
    await tell(service.meter_pause, 20, reason="another")
    await tell(service.meter_resume, 40)  # of the one before
    await tell(service.meter_resume, 10)
    found = await site.sql.fetch(
        "SELECT p.* FROM meter_pauses p JOIN meters m ON m.id = p.meter_id WHERE subject_id = $1 ORDER BY from_at",
        subject,
    )
    spans = [tuple(round((start - row[end]).total_seconds()) for end in ("from_at", "until_at")) for row in found]
    assert spans == [(70, 40), (20, 10)]
    assert await site.broken() == []


async def test_what_was_used_is_owed_below_the_floor_and_nothing_else_is(site: Site):
    subject = await site.open(ago=100)
    assert (await site.do(service.meter_settle, subject)).billed_micros >= 100_000
    assert await site.balance() < 0
    with pytest.raises(asyncpg.CheckViolationError):
        await site.sql.execute(
            "SELECT * FROM ledger_hold_take($1, $2, $3, 'USD', 1, NULL, 'more', now() + interval '1 hour')",
            new_id(),
            new_id().hex,
            site.who.org_id,
        )
    assert await site.broken() == []


async def test_passes_are_one_transaction_for_an_organisation_and_wait_for_their_window(site: Site):
    subjects = [await site.open(ago=100) for _ in range(3)]
    posted = await service.accrue(site.db, window_seconds=60, batch=10_000)
    assert posted >= 3
    transactions = {row["transaction_id"] for subject in subjects for row in await site.usage(subject)}
    assert len(transactions) == 1
    before = await site.balance()
    await service.accrue(site.db, window_seconds=3_600)
    assert await site.balance() == before


async def test_what_costs_nothing_is_metered_all_the_same(site: Site):
    price_id = new_id()
    await site.sql.execute(
        "INSERT INTO sku_prices (id, sku_id, currency, micros_per_gpu_hour, valid_from, set_by) "
        "SELECT $1, sku_id, 'EUR', 0, now(), 'test' FROM sku_prices WHERE id = $2",
        price_id,
        site._price,
    )
    subject = await site.open(ago=30, price_id=price_id, micros_per_gpu_hour=0, currency="EUR")
    settled = await site.do(service.meter_settle, subject)
    assert settled.billed_seconds >= 30
    assert [row["transaction_id"] for row in await site.usage(subject)] == [None]
    assert await site.broken() == []


async def test_workers_at_once_and_workers_killed_charge_every_second_once(site: Site, database: DatabaseUrls):
    subjects = [await site.open(ago=100 + number) for number in range(200)]
    posted = "SELECT max(billed_number) FROM meters WHERE subject_id = ANY($1)"
    for killed in range(1, 6):
        two = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", ACCRUE, database.app, stderr=asyncio.subprocess.PIPE
            )
            for _ in range(2)
        ]
        async with asyncio.timeout(60):
            # In the middle of a pass: it goes by twenties.
            while await site.sql.fetchval(posted, subjects) < killed:  # noqa: ASYNC110 # another program posts
                await asyncio.sleep(0.01)
        for process in two:
            assert process.returncode is None, (await process.stderr.read() if process.stderr else b"").decode()
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
    for subject in subjects[:100]:
        await site.do(service.meter_close, subject, ago=1, reason="release")
    await service.accrue(site.db, window_seconds=3_600)
    rows = await site.sql.fetch(
        "SELECT * FROM meters WHERE subject_id = ANY($1) ORDER BY opened_at DESC", subjects[:100]
    )
    assert all(row["settled_at"] is not None for row in rows)
    assert [row["billed_micros"] for row in rows] == [(99 + number) * 1_000 for number in range(100)]
    assert await site.broken() == []


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO usage (id, org_id, meter_id, number, from_at, until_at, seconds, micros) "
        "SELECT uuidv7(), org_id, meter_id, 9, from_at, until_at, 1, 0 FROM usage LIMIT 1",
        "UPDATE usage SET micros = 0",
        "DELETE FROM usage",
        "TRUNCATE usage",
        "UPDATE meters SET micros_per_hour = 0",
        "UPDATE meters SET closed_at = opened_at",
        "DELETE FROM meters",
        "DELETE FROM meter_pauses",
        "INSERT INTO meter_pauses (meter_id, org_id, from_at, reason) SELECT id, org_id, opened_at, 'free' FROM meters",
        "SELECT usage_post(NULL, NULL, 1, NULL, 'infinity', now(), 'me', 'me')",
        "SET session_replication_role = replica",
        "ALTER TABLE usage DISABLE TRIGGER ALL",
    ],
)
async def test_the_programs_role_cannot_write_around_it(site: Site, database: DatabaseUrls, statement: str):
    await site.do(service.meter_settle, await site.open())
    app = await asyncpg.connect(database.app)
    try:
        await app.execute("SET app.org_id = '*'")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await app.execute(statement)
    finally:
        await app.close()


async def test_an_organisation_neither_sees_nor_moves_another_s_meters(site: Site, yard: Yard):
    subject = await site.open()
    stranger = await yard.tenant(0)
    async with site.db.transaction(stranger.sight, "test") as tx:
        assert await service.meter_cost(tx, subject) is None
        assert await service.meter_close(tx, subject, at=await site.now(), reason="mine") is None
        assert await service.meter_settle(tx, subject) is None
        assert await service.burn(tx, site.who.org_id) == []
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with site.db.transaction(stranger.sight, "test") as tx:
            await tx.rows("SELECT * FROM usage_accrue($1, $1, 10, 'infinity', 'x', 'x')", UUID(int=0))
    assert (await site.cost(subject)).closed_at is None


async def test_the_burn_is_that_of_what_runs(site: Site):
    first, second, third = [await site.open(ago=100) for _ in range(3)]
    await site.do(service.meter_pause, second, reason="fault")
    await site.do(service.meter_close, third, reason="release")
    await site.do(service.meter_settle, first)
    async with site.db.read(site.who.sight) as tx:
        (found,) = await service.burn(tx, site.who.org_id)
    assert found.micros_per_hour == RATE
    assert found.unposted_micros >= 200_000
