"""What somebody who wants money that is not his may try, and what a clock may do to the books."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.ids import TransactionId
from tests.support.people import Person, refusal
from tests.support.purse import Purse, broken, purse_of

UNIT = 1_000_000


@pytest.fixture(scope="module")
async def purse(db: Database) -> AsyncIterator[Purse]:
    async with purse_of(db) as made:
        yield made
    assert await broken(db) == []


@pytest.fixture
async def mine(purse: Purse) -> Purse:
    made = await purse.another()
    made.admin = await purse.city.admin()
    return made


async def adjust(purse: Purse, micros: int, who: Person | None = None) -> Any:
    body = {"amount_micros": micros, "reason": "a test"}
    return await purse.city.made(who or purse.admin, f"/admin/orgs/{purse.org_id}/adjustments", body)


async def test_an_owner_is_no_operator_of_his_own_money(mine: Purse):
    paid = await mine.top_up(5 * UNIT)
    for method, path, body in (
        ("POST", f"/admin/orgs/{mine.org_id}/adjustments", {"amount_micros": UNIT, "reason": "for myself"}),
        ("PUT", f"/admin/orgs/{mine.org_id}/credit-line", {"credit_line_micros": UNIT, "reason": "for myself"}),
        ("POST", f"/admin/ledger/{paid}/reversal", {"reason": "for myself"}),
    ):
        assert refusal(await mine.city.ask(mine.owner, method, path, body))[0] == 403
    assert (await mine.balance()).available_micros == 5 * UNIT


async def test_many_small_adjustments_are_a_large_one(mine: Purse, purse: Purse):
    """What one operator may do alone is the sum of a day, over all organisations, also when asked at once."""
    other = await mine.another()
    made = await asyncio.gather(*(adjust(one, 30 * UNIT, mine.admin) for one in (mine, other) for _ in range(4)))
    assert sorted(one["state"] for one in made) == ["posted"] * 3 + ["proposed"] * 5
    assert (await mine.balance()).balance_micros + (await other.balance()).balance_micros == 90 * UNIT
    assert (await adjust(mine, 10 * UNIT))["state"] == "posted"
    assert (await adjust(mine, -1))["state"] == "proposed"
    assert (await adjust(mine, 100 * UNIT, await purse.city.admin()))["state"] == "posted"


async def test_what_a_program_reversed_is_not_reversed_by_hand_again(mine: Purse):
    """Answered as if it were new, it would be told of twice, though money moved once."""
    paid = await mine.top_up(5 * UNIT)
    async with mine.writing() as tx:
        await ledger.reverse(tx, TransactionId(paid), reason="the payment failed")
    asked = await mine.city.ask(mine.admin, "POST", f"/admin/ledger/{paid}/reversal", {"reason": "by hand"})
    assert refusal(asked) == (409, "ledger_reversed_already")
    assert (await mine.balance()).balance_micros == 0
