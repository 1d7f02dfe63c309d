"""What somebody who wants money that is not his may try, and what a clock may do to the books."""

from collections.abc import AsyncIterator

import pytest

from gpuaas.infra.postgres.database import Database
from tests.support.people import refusal
from tests.support.purse import Purse, broken, purse_of

UNIT = 1_000_000


@pytest.fixture(scope="module")
async def purse(db: Database) -> AsyncIterator[Purse]:
    async with purse_of(db) as made:
        yield made
    assert await broken(db) == []


@pytest.fixture
async def mine(purse: Purse) -> Purse:
    return await purse.another()


async def test_an_owner_is_no_operator_of_his_own_money(mine: Purse):
    paid = await mine.top_up(5 * UNIT)
    for method, path, body in (
        ("POST", f"/admin/orgs/{mine.org_id}/adjustments", {"amount_micros": UNIT, "reason": "for myself"}),
        ("PUT", f"/admin/orgs/{mine.org_id}/credit-line", {"credit_line_micros": UNIT, "reason": "for myself"}),
        ("POST", f"/admin/ledger/{paid}/reversal", {"reason": "for myself"}),
    ):
        assert refusal(await mine.city.ask(mine.owner, method, path, body))[0] == 403
    assert (await mine.balance()).available_micros == 5 * UNIT
