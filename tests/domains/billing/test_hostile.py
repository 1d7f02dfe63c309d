"""What somebody who wants money that is not his may try, and what a clock may do to the books."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpuaas.contracts.http.billing import AccountKind, PostingKind
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.domains.billing.ledger.models import Charge, HoldWanted
from gpuaas.infra.postgres.database import Database
from gpuaas.kit import clock
from gpuaas.kit.ids import TransactionId, new_id
from gpuaas.kit.money import MAX_MICROS
from tests.support.people import Person, refusal
from tests.support.purse import EVERYTHING, Purse, broken, purse_of

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


async def test_who_was_made_an_operator_just_now_is_no_second_pair_of_eyes(mine: Purse):
    """One operator, two accounts: he gives the second one the role and approves with it, or proposes with it."""
    puppet = await mine.city.person("puppet")
    roles = {"roles": ["platform-admin"], "reason": "a new colleague"}
    path = f"/platform/users/{puppet.id}/platform-roles"
    assert (await mine.city.ask(mine.admin, "PUT", path, roles)).status_code == 200
    for proposer, approver in ((mine.admin, puppet), (puppet, mine.admin), (puppet, mine.second_admin)):
        made = await adjust(mine, 500 * UNIT, proposer)
        approve = f"/admin/adjustments/{made['id']}/approve"
        asked = await mine.city.ask(approver, "POST", approve, {"reason": "looked at it"})
        assert refusal(asked) == (403, "adjustment_own")
    assert (await mine.balance()).balance_micros == 0


async def test_more_credit_can_be_given_to_who_owes_more_and_less_only_as_far_as_it_is_free(mine: Purse):
    used = {AccountKind.TENANT: -50 * UNIT, AccountKind.REVENUE: 50 * UNIT}
    await mine.post(-1, kind=PostingKind.USAGE, legs=used)
    path = f"/admin/orgs/{mine.org_id}/credit-line"
    for line, status in ((20, 200), (60, 200), (50, 200), (40, 409)):
        body = {"credit_line_micros": line * UNIT, "reason": "a contract"}
        assert (await mine.city.ask(mine.admin, "PUT", path, body)).status_code == status, line


@pytest.mark.parametrize("micros", [MAX_MICROS + 1, -MAX_MICROS - 1, 2**63 - 1])
async def test_no_posting_fills_an_account_that_all_share(mine: Purse, micros: int):
    with pytest.raises(ValueError, match="at most"):
        await mine.post(micros, legs={AccountKind.TENANT: micros, AccountKind.CLEARING: -micros})
    charge = Charge(key=new_id().hex, org_id=mine.org_id, amount_micros=micros)
    async with mine.db.transaction(EVERYTHING, "test") as tx:
        with pytest.raises(ValueError, match="at most"):
            await ledger.post_many(tx, PostingKind.CREDIT, [charge], counter=AccountKind.CREDITS)


async def test_a_hold_that_would_be_over_at_once_is_none(mine: Purse):
    """It would be answered as if money were set aside, and none would be."""
    await mine.top_up(UNIT)
    wanted = HoldWanted(key=new_id().hex, org_id=mine.org_id, amount_micros=1, until=clock.now())
    async with mine.writing() as tx:
        with pytest.raises(ValueError, match="later"):
            await ledger.hold_take(tx, wanted)


async def test_who_raises_the_limit_of_one_operator_does_not_use_it_alone_that_day(mine: Purse):
    path = "/policy/billing.adjustment_four_eyes_micros"
    body = {"value": 1_000 * UNIT, "reason": "a large month"}
    assert (await mine.city.ask(mine.admin, "PUT", path, body)).status_code == 200
    try:
        assert (await adjust(mine, 1))["state"] == "proposed"
    finally:
        assert (await mine.city.ask(mine.admin, "DELETE", path, reason="over")).status_code in (200, 204)
    assert (await adjust(mine, 1))["state"] == "proposed", "lowering a limit that was raised is a change, too"
