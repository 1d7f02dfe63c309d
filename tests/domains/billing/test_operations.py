"""Money through the API: who sees what, adjustments with four eyes, reversals, credit, exports, the books."""

import csv
import io
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpuaas.domains.billing.adjustments import handlers as adjusting
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.ids import new_id
from tests.support.people import found, refusal
from tests.support.purse import Purse, broken, purse_of

UNIT = 1_000_000
LARGE = 101 * UNIT


@pytest.fixture(scope="module")
async def purse(db: Database) -> AsyncIterator[Purse]:
    async with purse_of(db) as made:
        yield made
    assert await broken(db) == []


@pytest.fixture
async def mine(purse: Purse) -> Purse:
    made = await purse.another()
    made.admin = await purse.city.admin()  # what somebody may adjust alone is counted for a day
    return made


async def adjust(purse: Purse, micros: int, reason: str = "a test") -> Any:
    body = {"amount_micros": micros, "reason": reason}
    return await purse.city.ask(purse.admin, "POST", f"/admin/orgs/{purse.org_id}/adjustments", body)


async def decide(purse: Purse, who: Any, adjustment: Any, how: str = "approve") -> Any:
    path = f"/admin/adjustments/{adjustment['id']}/{how}"
    return await purse.city.ask(who, "POST", path, {"reason": "looked at it"})


async def test_a_small_adjustment_is_posted_at_once_and_seen_by_the_tenant(mine):
    made = found(await adjust(mine, 25 * UNIT, "goodwill after the outage"), 201)
    assert made["state"] == "posted"
    listed = await mine.city.get(mine.owner, f"/orgs/{mine.org_id}/ledger")
    assert [
        (e["kind"], e["amount_micros"], e["balance_micros"], e["reason"], e["number"]) for e in listed["items"]
    ] == [("adjustment", 25 * UNIT, 25 * UNIT, "goodwill after the outage", 1)]
    balance = await mine.city.get(mine.owner, f"/orgs/{mine.org_id}/balance")
    assert (balance["balance_micros"], balance["available_micros"]) == (25 * UNIT, 25 * UNIT)


async def test_a_large_adjustment_waits_for_somebody_else(mine):
    made = found(await adjust(mine, LARGE), 201)
    assert (made["state"], made["transaction_id"]) == ("proposed", None)
    assert (await mine.balance()).balance_micros == 0
    assert refusal(await decide(mine, mine.admin, made)) == (403, "adjustment_own")
    approved = found(await decide(mine, mine.second_admin, made), 200)
    assert approved["state"] == "posted"
    assert (await mine.balance()).balance_micros == LARGE
    assert refusal(await decide(mine, mine.second_admin, made)) == (409, "state_move_refused")
    assert refusal(await decide(mine, mine.second_admin, made, "reject")) == (409, "state_move_refused")


async def test_a_proposal_is_taken_back_by_who_made_it_and_never_posted(mine):
    made = found(await adjust(mine, LARGE), 201)
    assert found(await decide(mine, mine.admin, made, "reject"), 200)["state"] == "rejected"
    assert refusal(await decide(mine, mine.second_admin, made)) == (409, "state_move_refused")
    assert (await mine.balance()).balance_micros == 0


async def test_a_proposal_nobody_decides_ends(mine, superuser):
    made = found(await adjust(mine, LARGE), 201)
    await superuser.execute(
        "UPDATE ledger_adjustments SET due_at = now() - interval '1 second' WHERE id = $1::text::uuid", made["id"]
    )
    assert refusal(await decide(mine, mine.second_admin, made)) == (409, "state_move_refused")
    assert (await mine.balance()).balance_micros == 0
    await adjusting.proposals_expire(mine.city.parts)
    listed = await mine.city.get(mine.admin, "/admin/adjustments", org_id=str(mine.org_id), state="expired")
    assert [one["id"] for one in listed["items"]] == [made["id"]]


@pytest.mark.parametrize("amount", [0, 10**15 + 1, "5", 1.5])
async def test_an_amount_that_is_none_is_refused(mine, amount):
    assert (await adjust(mine, amount)).status_code in (400, 422)


async def test_nothing_is_taken_that_is_not_there(mine):
    assert refusal(await adjust(mine, -1)) == (409, "balance_too_low")


async def test_the_database_itself_wants_a_second_pair_of_eyes(mine, superuser):
    made = found(await adjust(mine, LARGE), 201)
    with pytest.raises(Exception, match="ledger_adjustments_four_eyes"):
        await superuser.execute(
            "UPDATE ledger_adjustments SET state = 'posted', due_at = NULL, transaction_id = uuidv7(), "
            "decided_by_id = proposed_by_id WHERE id = $1::text::uuid",
            made["id"],
        )


async def test_a_transaction_is_reversed_once(mine):
    transaction_id = await mine.top_up(5 * UNIT)
    path, body = f"/admin/ledger/{transaction_id}/reversal", {"reason": "charged twice"}
    undone = await mine.city.made(mine.admin, path, body)
    assert (undone["state"], undone["amount_micros"]) == ("posted", -5 * UNIT)
    assert refusal(await mine.city.ask(mine.admin, "POST", path, body)) == (409, "ledger_reversed_already")
    final = f"/admin/ledger/{undone['transaction_id']}/reversal"
    assert refusal(await mine.city.ask(mine.admin, "POST", final, body)) == (409, "ledger_reversal_final")
    assert (await mine.balance()).balance_micros == 0


async def test_a_large_reversal_waits_for_somebody_else(mine):
    transaction_id = await mine.top_up(LARGE)
    made = await mine.city.made(mine.admin, f"/admin/ledger/{transaction_id}/reversal", {"reason": "charged back"})
    assert made["state"] == "proposed"
    assert found(await decide(mine, mine.second_admin, made), 200)["state"] == "posted"
    assert (await mine.balance()).balance_micros == 0


async def test_a_transaction_that_is_none_is_missing(mine):
    answer = await mine.city.ask(mine.admin, "POST", f"/admin/ledger/{new_id()}/reversal", {"reason": "whatever"})
    assert refusal(answer) == (404, "ledger_transaction_missing")


async def test_credit_lets_a_balance_fall_and_is_not_taken_back_while_in_use(mine):
    path = f"/admin/orgs/{mine.org_id}/credit-line"
    body = {"credit_line_micros": 10 * UNIT, "reason": "a contract"}
    given = found(await mine.city.ask(mine.admin, "PUT", path, body), 200)
    assert given["available_micros"] == 10 * UNIT
    assert (await mine.post(-10 * UNIT)).balance_micros == -10 * UNIT
    less = await mine.city.ask(mine.admin, "PUT", path, body | {"credit_line_micros": 10 * UNIT - 1})
    assert refusal(less) == (409, "balance_too_low")


async def test_a_ledger_is_read_in_pages_and_by_filter(mine):
    for n in range(1, 6):
        await mine.post(n * UNIT)
    await mine.post(-UNIT)
    path = f"/orgs/{mine.org_id}/ledger"
    first = await mine.city.get(mine.owner, path, limit=4)
    second = await mine.city.get(mine.owner, path, limit=4, cursor=first["next_cursor"])
    assert [entry["number"] for entry in first["items"] + second["items"]] == [6, 5, 4, 3, 2, 1]
    assert second["next_cursor"] is None
    refunds = await mine.city.get(mine.owner, path, kind="refund")
    assert [entry["amount_micros"] for entry in refunds["items"]] == [-UNIT]
    since = await mine.city.get(mine.owner, path, **{"from": "2100-01-01T00:00:00Z"})
    assert since["items"] == []


async def test_a_balance_of_the_past_is_told(mine):
    await mine.top_up(UNIT)
    past = await mine.city.get(mine.owner, f"/orgs/{mine.org_id}/balance", at="2020-01-01T00:00:00Z")
    assert past["balance_micros"] == 0
    answer = await mine.city.ask(mine.owner, "GET", f"/orgs/{mine.org_id}/balance", at="9999-01-01T00:00:00Z")
    assert answer.status_code == 422


@pytest.mark.parametrize("evil", ["=HYPERLINK(1)", "+1+1", "@SUM(A1)", "-2+3"])
async def test_an_export_holds_no_formula_and_every_amount_to_the_last_place(mine, evil):
    found(await adjust(mine, 12_345_678, evil), 201)
    await mine.post(-1)
    answer = await mine.city.ask(mine.owner, "GET", f"/orgs/{mine.org_id}/ledger-export/csv")
    lines = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(line["amount"], line["balance"]) for line in lines] == [
        ("12.345678", "12.345678"),
        ("-0.000001", "12.345677"),
    ]
    assert lines[0]["reason"] == "'" + evil


async def test_the_books_have_two_equal_sides(mine):
    await mine.top_up(UNIT)
    books = await mine.city.get(mine.admin, "/admin/books")
    assert books["equations"]
    assert all(one["holds"] for one in books["equations"])
    assert sum(book["balance_micros"] for book in books["books"]) == 0
    proof = await mine.city.get(mine.admin, "/ops/books/verify")
    assert proof["holds"]
    assert proof["entries"] >= 2 * proof["transactions"] > 0
