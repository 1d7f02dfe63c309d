"""Topping up: from the wish to the balance, and what becomes of a payment that nobody pays."""

from typing import Any

import pytest

from gpuaas.domains.payments.checkouts import handlers
from gpuaas.kit.ids import new_id
from tests.support.people import found, refusal
from tests.support.till import MICROS, Till


async def test_a_payment_has_a_page_and_once_paid_it_is_in_the_balance(till: Till):
    before = await till.purse.balance()
    payment = await till.top_up(50)
    assert (payment["state"], payment["amount_micros"], payment["currency"]) == ("open", 50 * MICROS, "USD")
    assert payment["url"].startswith(till.provider.url)
    assert (await till.purse.balance()).balance_micros == before.balance_micros
    await till.pay(payment)
    await till.until(payment["id"], "succeeded")
    shown = await till.show(payment["id"])
    assert (shown["url"], shown["failure"], shown["due_at"]) == ("", "", None)
    assert shown["paid_at"]
    assert (await till.purse.balance()).balance_micros == before.balance_micros + 50 * MICROS
    [told] = await till.events("payments.succeeded", payment["id"])
    assert told["amount_micros"] == 50 * MICROS
    [entry] = await till.rows("SELECT kind, key FROM ledger_transactions WHERE subject_id = $1", payment["id"])
    assert (entry["kind"], entry["key"]) == ("top_up", payment["session_id"])
    assert await till.broken() == []


async def test_the_same_request_is_the_same_payment(till: Till):
    key = new_id().hex
    first, again = await till.top_up(20, key=key), await till.top_up(20, key=key)
    assert first == again


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"units": 1}, "payment_amount_refused"),
        ({"units": 100_000}, "payment_amount_refused"),
        ({"units": 12.345678}, "payment_amount_refused"),
        ({"units": 50, "currency": "JPY"}, "payment_currency_refused"),
        ({"units": 50, "currency": "KWD"}, "payment_currency_refused"),
        ({"units": -5}, "request_invalid"),
        ({"units": 50, "currency": "usd"}, "request_invalid"),
    ],
)
async def test_what_cannot_be_paid_is_refused_before_anything_is_written(till: Till, wanted, code):
    before = await till.rows("SELECT count(*) FROM payments")
    assert refusal(await till.ask(**wanted)) == (422, code)
    assert await till.rows("SELECT count(*) FROM payments") == before


async def test_the_limits_are_policy(till: Till):
    till.purse.city.policy.values["payments.top_up_min_micros"] = 2 * MICROS
    try:
        assert (await till.top_up(2))["state"] == "open"
    finally:
        del till.purse.city.policy.values["payments.top_up_min_micros"]


async def test_a_cancelled_payment_cannot_be_paid_and_is_told_as_expired(till: Till):
    payment = await till.top_up()
    path = f"/orgs/{till.purse.org_id}/payments/{payment['id']}/cancel"
    assert found(await till.purse.city.ask(till.purse.owner, "POST", path), 200)["state"] == "expired"
    await till.told()
    assert len(await till.events("payments.expired", payment["id"])) == 1
    assert refusal(await till.purse.city.ask(till.purse.owner, "POST", path + "x"))[0] == 404


async def test_a_payment_that_was_paid_meanwhile_is_not_cancelled_but_credited(till: Till):
    payment, before = await till.top_up(30), await till.purse.balance()
    await till.order("webhooks", paused=True)
    await till.pay(payment)
    path = f"/orgs/{till.purse.org_id}/payments/{payment['id']}/cancel"
    answer = await till.purse.city.ask(till.purse.owner, "POST", path)
    await till.order("clear")
    assert refusal(answer) == (409, "state_move_refused")
    await till.until(payment["id"], "succeeded")
    assert (await till.purse.balance()).balance_micros == before.balance_micros + 30 * MICROS


async def test_a_declined_card_leaves_the_page_open_and_says_why(till: Till):
    payment = await till.top_up()
    await till.pay(payment, "declined")
    await till.told()
    shown = await till.show(payment["id"])
    assert (shown["state"], shown["failure"]) == ("open", "Your card was declined.")
    await till.pay(payment)
    await till.until(payment["id"], "succeeded")


async def test_a_bank_transfer_that_arrives_later_is_credited_then(till: Till):
    payment, before = await till.top_up(70), await till.purse.balance()
    await till.pay(payment, "bank", seconds=20)
    await till.told()
    assert (await till.read(payment["id"])).state == "open"
    await till.order("later", seconds=21)
    await till.until(payment["id"], "succeeded")
    assert (await till.purse.balance()).balance_micros == before.balance_micros + 70 * MICROS


async def test_a_bank_transfer_that_fails_is_told(till: Till):
    payment = await till.top_up()
    await till.pay(payment, "bank_fails")
    await till.until(payment["id"], "failed")
    [told] = await till.events("payments.failed", payment["id"])
    assert told["reason"]


async def test_a_payment_past_its_deadline_has_expired_and_late_money_is_credited_all_the_same(till: Till, superuser):
    payment = await till.top_up()
    await superuser.execute("UPDATE payments SET due_at = now() - interval '1 second' WHERE id = $1", payment["id"])
    await handlers.payments_end_due(till.purse.city.parts)
    assert (await till.read(payment["id"])).state == "expired"
    assert len(await till.events("payments.expired", payment["id"])) == 1
    await till.pay(payment)
    await till.until(payment["id"], "succeeded")


async def test_a_payment_of_somebody_else_is_none(till: Till):
    payment = await till.top_up()
    other = await till.purse.another()
    answer = await till.purse.city.ask(other.owner, "GET", f"/orgs/{other.org_id}/payments/{payment['id']}")
    assert refusal(answer) == (404, "payment_missing")


async def test_the_portal_is_the_providers_and_its_address_is_shown_once(till: Till):
    path, key = f"/orgs/{till.purse.org_id}/billing-portal", new_id().hex
    made = found(await till.purse.city.ask(till.purse.owner, "POST", path, key=key), 201)
    assert made["url"].startswith(till.provider.url)
    again = found(await till.purse.city.ask(till.purse.owner, "POST", path, key=key), 201)
    assert (again["url"], again["already_shown"]) == (None, True)


async def test_a_customer_the_provider_does_not_know_any_more_is_made_again(till: Till, superuser: Any):
    """Its account there was changed, or somebody deleted the customer."""
    await till.top_up(20)
    change = "UPDATE payment_customers SET customer_id = $2 WHERE org_id = $1"
    await superuser.execute(change, till.purse.org_id, "cus_of_another_account")
    assert (await till.top_up(20))["state"] == "open"
    await superuser.execute(change, till.purse.org_id, "cus_deleted_there")
    path = f"/orgs/{till.purse.org_id}/billing-portal"
    portal = found(await till.purse.city.ask(till.purse.owner, "POST", path), 201)
    assert portal["url"].startswith(till.provider.url)
    await till.paid(20)
