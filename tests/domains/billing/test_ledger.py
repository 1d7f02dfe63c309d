"""The ledger: money moves once, nobody spends what he has not, and what was posted stays."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.billing import AccountKind, MoneyHoldState, PostingKind
from gpuaas.domains.billing.ledger import handlers
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.domains.billing.ledger.models import Capture, Charge, Hold, HoldWanted, Posted, Posting, between
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Sight
from gpuaas.kit import clock
from gpuaas.kit.errors import Conflict, Missing
from gpuaas.kit.ids import MoneyHoldId, TransactionId, new_id
from tests.support.purse import EVERYTHING, Purse, broken, purse_of


@pytest.fixture(scope="module")
async def purse(db: Database) -> AsyncIterator[Purse]:
    async with purse_of(db) as made:
        yield made
    assert await broken(db) == []


@pytest.fixture
async def mine(purse: Purse) -> Purse:
    """An organisation of the test's own."""
    return await purse.another()


async def take(purse: Purse, micros: int, *, seconds: float = 3600, **changed: Any) -> Hold:
    fields: dict[str, Any] = {
        "key": new_id().hex,
        "org_id": purse.org_id,
        "amount_micros": micros,
        "until": clock.now() + timedelta(seconds=seconds),
    }
    async with purse.writing() as tx:
        return await ledger.hold_take(tx, HoldWanted(**(fields | changed)))


async def capture(purse: Purse, hold: Hold, micros: int, *, last: bool = True, key: str = "") -> Posted:
    async with purse.writing() as tx:
        wanted = Capture(kind=PostingKind.USAGE, key=key or new_id().hex, amount_micros=micros, last=last)
        return await ledger.hold_capture(tx, hold.id, wanted)


async def void(purse: Purse, hold: Hold) -> Hold:
    async with purse.writing() as tx:
        return await ledger.hold_void(tx, hold.id)


async def test_an_organisation_without_a_posting_has_nothing(mine):
    found = await mine.balance()
    assert (found.balance_micros, found.available_micros) == (0, 0)


async def test_what_is_posted_is_in_the_balance(mine):
    await mine.top_up(1000)
    posted = await mine.post(-300)
    assert posted.balance_micros == 700
    assert (await mine.balance()).balance_micros == 700


async def test_the_same_key_posts_once_and_answers_alike(mine):
    key = new_id().hex
    first = await mine.post(500, key=key)
    again = await mine.post(500, key=key)
    assert (again.transaction_id, again.balance_micros, again.replayed) == (first.transaction_id, 500, True)
    assert (await mine.balance()).balance_micros == 500


async def test_a_debit_that_is_repeated_when_the_balance_is_gone_answers_as_before(mine):
    await mine.top_up(500)
    key = new_id().hex
    first = await mine.post(-500, key=key)
    assert (await mine.post(-500, key=key)).transaction_id == first.transaction_id


@pytest.mark.parametrize("changed", [{"legs": between(501, AccountKind.CLEARING)}, {"currency": "EUR"}])
async def test_the_same_key_for_something_else_is_refused(mine, changed):
    key = new_id().hex
    await mine.post(500, key=key)
    with pytest.raises(Conflict) as refused:
        await mine.post(500, key=key, **changed)
    assert refused.value.code == Code.POSTING_KEY_REUSED


async def test_the_same_key_at_once_posts_once(mine):
    key = new_id().hex
    posted = await asyncio.gather(*(mine.post(500, key=key) for _ in range(8)))
    assert len({one.transaction_id for one in posted}) == 1
    assert [one.replayed for one in posted].count(False) == 1
    assert (await mine.balance()).balance_micros == 500


async def test_nobody_falls_below_zero(mine):
    await mine.top_up(500)
    with pytest.raises(Conflict) as refused:
        await mine.post(-501)
    assert refused.value.code == Code.BALANCE_TOO_LOW
    assert (await mine.post(-500)).balance_micros == 0


async def test_what_was_used_is_owed_whatever_the_balance_and_then_nothing_else_is_to_be_had(mine):
    await mine.top_up(500)
    hold = await take(mine, 100)
    charge = Charge(key=new_id().hex, org_id=mine.org_id, amount_micros=-600)
    async with mine.writing() as tx:
        assert (await ledger.post_many(tx, PostingKind.USAGE, [charge]))[0].transaction_id is not None
    assert (await mine.balance()).balance_micros == -100
    for more in (lambda: mine.post(-1), lambda: take(mine, 1)):
        with pytest.raises(Conflict):
            await more()
    assert (await capture(mine, hold, 100)).balance_micros == -200
    await mine.top_up(200)


async def test_fifty_debits_at_once_on_a_balance_for_seven_are_seven(mine):
    await mine.top_up(700)
    tried = await asyncio.gather(*(mine.post(-100) for _ in range(50)), return_exceptions=True)
    assert sum(isinstance(one, Posted) for one in tried) == 7
    assert all(isinstance(one, Posted) or getattr(one, "code", "") == Code.BALANCE_TOO_LOW for one in tried)
    assert (await mine.balance()).balance_micros == 0


async def test_fifty_holds_at_once_on_a_balance_for_one_are_one(mine):
    await mine.top_up(100)
    tried = await asyncio.gather(*(take(mine, 100) for _ in range(50)), return_exceptions=True)
    assert sum(isinstance(one, Hold) for one in tried) == 1
    assert (await mine.balance()).available_micros == 0


async def test_what_is_set_aside_cannot_be_spent_and_can_be_charged(mine):
    await mine.top_up(1000)
    hold = await take(mine, 800)
    with pytest.raises(Conflict):
        await mine.post(-201)
    await mine.post(-200)
    assert (await capture(mine, hold, 800)).balance_micros == 0


async def test_a_part_of_a_hold_is_charged_and_the_rest_is_free(mine):
    await mine.top_up(1000)
    hold = await take(mine, 800)
    await capture(mine, hold, 300)
    found = await mine.balance()
    assert (found.balance_micros, found.held_micros) == (700, 0)
    with pytest.raises(Conflict) as refused:
        await capture(mine, hold, 1)
    assert refused.value.code == Code.MONEY_HOLD_OVER


async def test_a_hold_is_charged_bit_by_bit_while_the_rest_stays_set_aside(mine):
    await mine.top_up(1000)
    hold = await take(mine, 800)
    await capture(mine, hold, 300, last=False)
    assert (await mine.balance()).held_micros == 500
    with pytest.raises(ValueError, match="ledger_hold_exceeded"):
        await capture(mine, hold, 501, last=False)
    await capture(mine, hold, 500)
    assert (await mine.balance()).balance_micros == 200


async def test_a_charge_of_a_hold_is_made_once(mine):
    await mine.top_up(1000)
    hold, key = await take(mine, 800), new_id().hex
    charged = await asyncio.gather(*(capture(mine, hold, 300, key=key) for _ in range(5)))
    assert len({one.transaction_id for one in charged}) == 1
    assert (await mine.balance()).balance_micros == 700


async def test_the_same_key_takes_one_hold(mine):
    await mine.top_up(1000)
    key = new_id().hex
    taken = await asyncio.gather(*(take(mine, 400, key=key) for _ in range(5)))
    assert len({hold.id for hold in taken}) == 1
    assert (await mine.balance()).held_micros == 400


async def test_a_hold_is_voided_once_and_stays_so(mine):
    await mine.top_up(1000)
    hold = await take(mine, 400)
    assert {(await void(mine, hold)).state for _ in range(3)} == {MoneyHoldState.VOIDED}
    assert (await mine.balance()).available_micros == 1000
    charged = await take(mine, 400)
    await capture(mine, charged, 100)
    assert (await void(mine, charged)).state is MoneyHoldState.CAPTURED


async def test_a_hold_ends_with_its_time_before_anybody_says_so(mine):
    await mine.top_up(1000)
    hold = await take(mine, 1000, seconds=0.05)
    await asyncio.sleep(0.1)
    assert (await mine.balance()).available_micros == 1000
    with pytest.raises(Conflict) as refused:
        await capture(mine, hold, 1)
    assert refused.value.code == Code.MONEY_HOLD_OVER
    await handlers.holds_expire(mine.city.parts)
    async with mine.reading() as tx:
        assert (await ledger.hold_get(tx, hold.id)).state is MoneyHoldState.EXPIRED


async def test_a_hold_grows_only_as_far_as_the_balance_goes(mine):
    await mine.top_up(1000)
    hold, until = await take(mine, 400), clock.now() + timedelta(hours=5)
    async with mine.writing() as tx:
        grown = await ledger.hold_extend(tx, hold.id, amount_micros=900, until=until)
    async with mine.writing() as tx:
        assert await ledger.hold_extend(tx, hold.id, amount_micros=900, until=until) == grown
    assert (grown.amount_micros, grown.due_at) == (900, until)
    with pytest.raises(Conflict) as refused:
        async with mine.writing() as tx:
            await ledger.hold_extend(tx, hold.id, amount_micros=1001, until=until)
    assert refused.value.code == Code.BALANCE_TOO_LOW


async def test_a_transaction_is_reversed_once_with_all_its_legs(mine):
    await mine.top_up(1000)
    posted = await mine.post(-300, legs={AccountKind.TENANT: -300, AccountKind.REVENUE: 250, AccountKind.CREDITS: 50})
    async with mine.writing() as tx:
        undone = await ledger.reverse(tx, posted.transaction_id, reason="a mistake")
    async with mine.writing() as tx:
        again = await ledger.reverse(tx, posted.transaction_id, reason="a mistake")
    assert (again.transaction_id, again.replayed) == (undone.transaction_id, True)
    assert (await mine.balance()).balance_micros == 1000
    with pytest.raises(Conflict) as refused:
        async with mine.writing() as tx:
            await ledger.reverse(tx, undone.transaction_id, reason="no, it was right")
    assert refused.value.code == Code.LEDGER_REVERSAL_FINAL


async def test_a_top_up_that_was_spent_is_not_reversed(mine):
    credit = await mine.top_up(1000)
    await mine.post(-1)
    with pytest.raises(Conflict) as refused:
        async with mine.writing() as tx:
            await ledger.reverse(tx, TransactionId(credit), reason="charged back")
    assert refused.value.code == Code.BALANCE_TOO_LOW


async def test_the_balance_of_every_past_instant_is_known(mine):
    seen = []
    for step in range(5):
        await mine.post(100 + step)
        await asyncio.sleep(0.01)
        seen.append((clock.now(), (await mine.balance()).balance_micros))
        await asyncio.sleep(0.01)
    async with mine.db.read(Sight(mine.org_id)) as tx:
        for at, balance in seen:
            assert (await ledger.balance_at(tx, mine.org_id, at=at)).balance_micros == balance
        before = await ledger.balance_at(tx, mine.org_id, at=seen[0][0] - timedelta(days=400))
    assert before.balance_micros == 0


async def test_a_batch_posts_for_many_and_refuses_whom_it_cannot_pay(purse):
    rich, poor = await purse.another(), await purse.another()
    await rich.top_up(1000)
    await poor.top_up(10)
    charges = [
        Charge(key=new_id().hex, org_id=who.org_id, amount_micros=-amount)
        for who, amount in ((rich, 100), (poor, 6), (rich, 200), (poor, 5), (rich, 300))
    ]
    async with purse.db.transaction(EVERYTHING, "test") as tx:
        made = await ledger.post_many(tx, PostingKind.REFUND, charges, counter=AccountKind.REFUNDS)
    assert [one.transaction_id is None for one in made] == [False, True, False, True, False]
    assert ((await rich.balance()).balance_micros, (await poor.balance()).balance_micros) == (400, 10)
    async with purse.db.transaction(EVERYTHING, "test") as tx:
        again = await ledger.post_many(tx, PostingKind.REFUND, charges[:1] + charges[2:3], counter=AccountKind.REFUNDS)
    assert [(one.transaction_id, one.replayed) for one in again] == [
        (made[0].transaction_id, True),
        (made[2].transaction_id, True),
    ]


async def test_a_batch_and_single_postings_at_once_agree(purse):
    some = [await purse.another() for _ in range(4)]
    for who in some:
        await who.top_up(100_000)

    async def batch() -> None:
        charges = [Charge(key=new_id().hex, org_id=who.org_id, amount_micros=-7) for who in some for _ in range(5)]
        async with purse.db.transaction(EVERYTHING, "test") as tx:
            await ledger.post_many(tx, PostingKind.USAGE, charges)

    await asyncio.gather(*(batch() for _ in range(6)), *(who.post(-3) for who in some for _ in range(10)))
    assert {(await who.balance()).balance_micros for who in some} == {100_000 - 6 * 5 * 7 - 10 * 3}


async def test_a_clock_that_steps_back_changes_no_order(mine, superuser):
    """Entries of an hour ahead, as if the clock had been: the next ones come after them."""
    first = await mine.top_up(100)
    ahead = clock.now() + timedelta(hours=1)
    moved = UUID(int=(int(ahead.timestamp() * 1000) << 80) | (first.int & ((1 << 80) - 1)))
    async with superuser.transaction():
        await superuser.execute("SET LOCAL session_replication_role = replica")
        for table, column in (
            ("ledger_entries", "transaction_id"),
            ("ledger_transactions", "id"),
            ("ledger_keys", "transaction_id"),
        ):
            await superuser.execute(f"UPDATE {table} SET {column} = $2 WHERE {column} = $1", first, moved)
    made = [(await mine.post(5)).transaction_id for _ in range(3)]
    assert [moved, *made] == sorted([moved, *made])
    assert (await mine.balance()).balance_micros == 115
    async with mine.reading() as tx:
        assert await tx.rows("SELECT * FROM invariant_01_balance_is_sum") == []


@pytest.mark.parametrize("behind", ["100 milliseconds", "1 second", "1 hour", "40 days"])
async def test_an_id_comes_right_after_the_newest_however_far_a_connections_ids_are_behind(superuser, behind):
    """Measured by the connection's own ids: these do not step back with the clock, and a shift by what the clock lost
    would carry every posting as far again into the future."""
    for _ in range(50):
        step = await superuser.fetchval(
            "SELECT uuid_extract_timestamp(uuidv7(ledger_shift(newest, mine) - away)) - uuid_extract_timestamp(newest) "
            "FROM (SELECT uuidv7() AS newest, uuidv7(-away) AS mine, away "
            "FROM (SELECT $1::text::interval AS away) AS a OFFSET 0) AS ids",
            behind,
        )
        assert timedelta(milliseconds=1) <= step < timedelta(milliseconds=50)
    assert await superuser.fetchval("SELECT ledger_shift(uuidv7(), uuidv7('1 millisecond'))") == timedelta(0)


async def test_of_another_organisation_nothing_can_be_posted_held_or_seen(mine, purse):
    other = await purse.another()
    await other.top_up(1000)
    hold = await take(other, 100)
    for wanted in (
        {"org_id": other.org_id},
        {"org_id": None, "legs": {AccountKind.REVENUE: 1, AccountKind.CREDITS: -1}},
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await mine.post(5, **wanted)
    with pytest.raises(Missing):
        await void(mine, hold)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await take(mine, 5, org_id=other.org_id)
    async with mine.db.read(Sight(mine.org_id)) as tx:
        assert (await ledger.balance_at(tx, other.org_id)).balance_micros == 0
        assert await tx.value("SELECT count(*) FROM ledger_entries WHERE org_id IS DISTINCT FROM $1", mine.org_id) == 0
        assert await tx.value("SELECT count(*) FROM ledger_accounts WHERE org_id IS NULL") == 0


async def test_a_hold_nobody_took_is_missing(mine):
    with pytest.raises(Missing):
        async with mine.writing() as tx:
            await ledger.hold_void(tx, MoneyHoldId(new_id()))


@pytest.mark.parametrize(
    "legs",
    [
        {AccountKind.TENANT: 5},
        {AccountKind.TENANT: 5, AccountKind.CLEARING: -4},
        {AccountKind.TENANT: 0, AccountKind.CLEARING: 0},
    ],
)
async def test_a_posting_that_does_not_balance_is_none(mine, legs):
    with pytest.raises(ValueError, match="sum to zero"):
        await mine.post(5, legs=legs)


async def test_a_posting_with_nothing_of_its_organisation_is_none(mine):
    wanted = Posting(
        kind=PostingKind.CREDIT,
        key=new_id().hex,
        org_id=mine.org_id,
        legs={AccountKind.REVENUE: 5, AccountKind.CREDITS: -5},
    )
    with pytest.raises(ValueError, match="ledger_legs"):
        async with mine.writing() as tx:
            await ledger.post(tx, wanted)
