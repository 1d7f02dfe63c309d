"""The provider's lists against our books: what was lost is made good, what differs is told, both sides agree."""

import asyncio
from typing import Any

import pytest

from gpuaas.domains.payments.reconciling import service
from gpuaas.kit.ids import new_id
from tests.support.people import found as answered
from tests.support.people import refusal
from tests.support.till import MICROS, Till, notice, session_of


async def sides(till: Till) -> dict[str, tuple[int, int]]:
    async with till.purse.reading() as tx:
        return {one.currency: (one.provider_micros, one.ledger_micros) for one in await service.sides(tx)}


async def differences(till: Till, **query: Any) -> list[dict[str, Any]]:
    page = await till.purse.city.get(till.purse.admin, "/admin/payment-differences", **query)
    items: list[dict[str, Any]] = page["items"]
    return items


@pytest.fixture(autouse=True)
async def healthy(till: Till):
    yield
    await till.order("clear")
    await till.told()


async def test_without_any_notice_everything_is_found_in_the_lists(till: Till):
    await till.order("webhooks", paused=True)
    before = (await till.purse.balance()).balance_micros
    payments = [await till.top_up(units) for units in (10, 20, 30)]
    for payment in payments:
        await till.pay(payment)
    library = await asyncio.to_thread(till.provider.library)
    session = await asyncio.to_thread(library.v1.checkout.sessions.retrieve, payments[2]["session_id"])
    params: Any = {"payment_intent": session["payment_intent"], "amount": 500}
    await asyncio.to_thread(library.v1.refunds.create, params)
    intent = await asyncio.to_thread(library.v1.payment_intents.retrieve, session["payment_intent"])
    report = await till.reconcile()
    assert (report.checkouts, report.refunds, report.healed) == (3, 1, 4)
    assert (await till.purse.balance()).balance_micros == before + 55 * MICROS
    dispute = (await till.order("dispute", charge=intent["latest_charge"]))["done"]
    await till.order("close_dispute", dispute=dispute["id"], won=False)
    await till.reconcile()
    assert (await till.read(payments[2]["id"])).state == "disputed"
    taken, credited = (await sides(till))["USD"]
    assert taken == credited
    assert (await till.reconcile()).healed == 0
    assert await till.broken() == []


async def test_what_comes_after_the_last_comparison_does_not_unbalance_it(till: Till):
    await till.reconcile()
    await till.paid(25)
    taken, credited = (await sides(till))["USD"]
    assert taken == credited
    await till.reconcile()
    again, then = (await sides(till))["USD"]
    assert (again, then) == (taken + 25 * MICROS, credited + 25 * MICROS)


async def test_a_page_that_is_not_ours_is_told_as_a_difference(till: Till):
    library = await asyncio.to_thread(till.provider.library)
    params: Any = {
        "mode": "payment",
        "line_items": [
            {"quantity": 1, "price_data": {"currency": "usd", "unit_amount": 700, "product_data": {"name": "x"}}}
        ],
        "client_reference_id": str(new_id()),
        "success_url": "http://127.0.0.1:9/",
    }
    made = await asyncio.to_thread(library.v1.checkout.sessions.create, params)
    await till.reconcile()
    assert made["id"] not in [one["object_id"] for one in await differences(till)]  # nobody has paid there
    await till.order("pay", session=made["id"])
    for _ in range(2):
        await till.reconcile()
    [found] = [one for one in await differences(till) if one["object_id"] == made["id"]]
    assert (found["kind"], found["theirs_micros"], found["ours_micros"]) == ("not_ours", 7 * MICROS, 0)


async def test_a_mismatch_stays_a_difference_with_both_sides(till: Till, superuser: Any):
    await till.order("webhooks", paused=True)
    payment = await till.top_up(40)
    await till.pay(payment)
    await superuser.execute("UPDATE payments SET amount_micros = $2 WHERE id = $1", payment["id"], 41 * MICROS)
    await till.reconcile()
    assert (await till.read(payment["id"])).state == "failed_reconcile"
    [found] = [one for one in await differences(till) if one["object_id"] == payment["session_id"]]
    assert (found["kind"], found["ours_micros"], found["theirs_micros"]) == ("amount", 41 * MICROS, 40 * MICROS)


async def test_a_credit_the_provider_knows_nothing_of_is_told_and_unbalances_the_equation(till: Till, superuser: Any):
    await till.reconcile()
    taken, credited = (await sides(till))["USD"]
    before = credited - taken
    payment = await till.read((await till.top_up(60))["id"])
    body = notice("checkout.session.completed", session_of(payment))  # signed, but the provider was never paid
    await till.send(body)
    await till.react()
    await superuser.execute("ALTER TABLE payment_effects DISABLE TRIGGER payment_effects_keep")
    await superuser.execute(
        "UPDATE payment_effects SET at = now() - interval '5 minutes' WHERE payment_id = $1", payment.id
    )
    await superuser.execute("ALTER TABLE payment_effects ENABLE TRIGGER payment_effects_keep")
    await superuser.execute("UPDATE payment_reconciliations SET began_at = now() - interval '10 minutes'")
    await till.reconcile()
    [found] = [one for one in await differences(till) if one["object_id"] == payment.session_id]
    assert (found["kind"], found["ours_micros"], found["theirs_micros"]) == ("not_there", 60 * MICROS, 0)
    taken, credited = (await sides(till))["USD"]
    assert credited - taken == before + 60 * MICROS


async def test_a_page_the_provider_does_not_know_keeps_nothing_else_waiting(till: Till, superuser: Any):
    """The account at the provider was changed, or a demo's folder was emptied."""
    lost, other = await till.top_up(20), await till.top_up(30)
    await superuser.execute(
        "UPDATE payments SET session_id = $2, created_at = now() - interval '5 days' WHERE id = $1",
        lost["id"],
        "cs_test_nobody_knows",
    )
    await superuser.execute("UPDATE payments SET created_at = now() - interval '4 days' WHERE id = $1", other["id"])
    await till.order("webhooks", paused=True)
    await till.pay(other)
    before = await till.rows("SELECT count(*) AS n FROM payment_reconciliations")
    await till.reconcile()
    assert await till.rows("SELECT count(*) AS n FROM payment_reconciliations") != before
    assert (await till.read(other["id"])).state == "succeeded"


async def test_a_dispute_lost_long_after_it_was_opened_is_found_without_its_notice(till: Till, superuser: Any):
    payment = await till.paid(50)
    dispute_id = await till.dispute(payment)
    before = (await till.purse.balance()).balance_micros
    await till.order("webhooks", paused=True)
    await till.order("close_dispute", dispute=dispute_id, won=False)
    await superuser.execute(
        "INSERT INTO payment_reconciliations "
        "VALUES (gen_random_uuid(), now() + interval '60 days', now(), 0, 0, 0, 0, 0)"
    )
    try:
        await till.reconcile()
    finally:
        await superuser.execute("DELETE FROM payment_reconciliations WHERE began_at > now() + interval '1 day'")
    assert (await till.purse.balance()).balance_micros == before - 50 * MICROS


async def test_an_operator_compares_now_and_sees_what_was_made_good(till: Till):
    await till.order("webhooks", paused=True)
    payment = await till.top_up(35)
    await till.pay(payment)
    city, operator = till.purse.city, await till.purse.city.admin()
    report = answered(await city.ask(operator, "POST", "/ops/reconcile"), 200)
    assert (report["provider"], report["healed"], report["healed_objects"]) == ("stripe", 1, [payment["session_id"]])
    first = next(one for one in report["equations"] if one["name"] == "payments_are_credits")
    assert first["right"] == (await sides(till))["USD"][1]
    assert {one["name"] for one in report["equations"]} >= {"payments_are_credits", "usage_is_occupancy"}
    again = answered(await city.ask(operator, "POST", "/ops/reconcile"), 200)
    assert (again["healed"], again["difference_count"]) == (0, len(again["differences"]))
    assert again["holds"] == (again["difference_count"] == 0 and all(one["holds"] for one in again["equations"]))
    audited = await till.rows("SELECT FROM audit_log WHERE action = 'billing.reconcile'")
    assert len(audited) == 2


async def test_what_differs_is_in_the_report(till: Till, superuser: Any):
    await till.order("webhooks", paused=True)
    payment = await till.top_up(45)
    await till.pay(payment)
    await superuser.execute("UPDATE payments SET amount_micros = $2 WHERE id = $1", payment["id"], 46 * MICROS)
    report = answered(await till.purse.city.ask(await till.purse.city.admin(), "POST", "/ops/reconcile"), 200)
    assert not report["holds"]
    assert payment["session_id"] in [one["object_id"] for one in report["differences"]]


async def test_while_the_provider_is_away_an_operator_hears_so(till: Till):
    await till.order("down")
    answer = await till.purse.city.ask(await till.purse.city.admin(), "POST", "/ops/reconcile")
    assert refusal(answer) == (503, "payment_provider_away")


async def test_while_the_provider_is_away_nothing_is_concluded(till: Till):
    before = await till.rows("SELECT count(*) AS n FROM payment_reconciliations")
    await till.order("down")
    with pytest.raises(Exception, match="does not answer"):
        await till.reconcile()
    assert await till.rows("SELECT count(*) AS n FROM payment_reconciliations") == before
