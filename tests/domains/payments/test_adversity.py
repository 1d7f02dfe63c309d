"""The provider down, slow, or timing out after it did what was asked: no second charge, no lost credit."""

import asyncio
from typing import Any

import pytest

from gpuaas.kit.ids import new_id
from tests.every.payment_stories import refund
from tests.support.people import found, refusal
from tests.support.till import MICROS, Till

FAULTS: dict[str, dict[str, Any]] = {
    "down": {"do": "down"},
    "answering 500": {"do": "down", "status": 500},
    "limiting us": {"do": "down", "status": 429},
    "timing out after success": {"do": "lost", "seconds": 5},
    "cutting off after success": {"do": "lost"},
    "slow": {"do": "slow", "seconds": 5},
}
faults = pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))


@pytest.fixture(autouse=True)
async def healthy(till: Till):
    yield
    await till.order("clear")


async def pages_of(till: Till, payment_id: str) -> int:
    """How many pages the provider has for it."""
    since = (await till.read(payment_id)).created_at
    return sum([str(one.payment_id) == payment_id async for one in till.stripe.checkouts(since)])


async def order(till: Till, fault: dict[str, Any], **more: Any) -> None:
    await till.order(**{**fault, **more})


@faults
async def test_a_top_up_that_got_no_answer_is_repeated_and_has_one_page(till: Till, fault: dict[str, Any]):
    await till.top_up()  # so that the provider knows the organisation
    await order(till, fault, method="POST", path="/v1/checkout/sessions")
    key = new_id().hex
    assert refusal(await till.ask(35, key=key)) == (503, "payment_provider_away")
    [row] = await till.rows("SELECT id, state FROM payments WHERE asked_key LIKE $1", f"%:{key}")
    assert row["state"] == "created"
    await till.order("clear")
    made = found(await till.ask(35, key=key), 201)
    assert (made["id"], made["state"]) == (str(row["id"]), "open")
    assert await pages_of(till, made["id"]) == 1
    before = (await till.purse.balance()).balance_micros
    await till.pay(made)
    await till.until(made["id"], "succeeded")
    assert (await till.purse.balance()).balance_micros == before + 35 * MICROS


@faults
async def test_a_refund_that_got_no_answer_is_asked_for_again_and_paid_back_once(till: Till, fault: dict[str, Any]):
    payment = await till.paid()
    before = (await till.purse.balance()).balance_micros
    await order(till, fault, method="POST", path="/v1/refunds", times=2)  # as often as the library tries by itself
    refund_id = await refund(till, payment["id"], 20)
    row: Any = None
    for _ in range(40):
        await till.run_flows()
        [row] = await till.rows("SELECT state FROM payment_refunds WHERE id = $1", refund_id)
        if row["state"] != "requested":
            break
        assert (await till.purse.balance()).held_micros == 20 * MICROS
        await asyncio.sleep(0.1)
    await till.told()
    assert row["state"] == "succeeded"
    balance = await till.purse.balance()
    assert (balance.balance_micros, balance.held_micros) == (before - 20 * MICROS, 0)
    assert len(await till.events("payments.refunded", payment["id"])) == 1
    assert await till.broken() == []


async def test_a_lost_notice_is_made_good_once_whoever_comes_first(till: Till):
    payment, before = await till.top_up(40), (await till.purse.balance()).balance_micros
    await till.order("webhooks", paused=True)
    await till.pay(payment)
    assert (await till.reconcile()).healed >= 1
    assert (await till.reconcile()).healed == 0
    assert (await till.read(payment["id"])).state == "succeeded"
    await till.order("webhooks", copies=3)
    await till.told()
    assert (await till.purse.balance()).balance_micros == before + 40 * MICROS
    assert len(await till.events("payments.succeeded", payment["id"])) == 1
    assert await till.broken() == []


async def test_notices_in_any_order_and_many_times_credit_once(till: Till):
    before = (await till.purse.balance()).balance_micros
    await till.order("webhooks", copies=3, reorder_seconds=0.5)
    payments = [await till.top_up(10) for _ in range(8)]
    for payment in payments:
        await till.pay(payment, "declined")
        await till.pay(payment)
    library = await asyncio.to_thread(till.provider.library)
    sessions = [await asyncio.to_thread(library.v1.checkout.sessions.retrieve, one["session_id"]) for one in payments]
    for session in sessions[:4]:  # begun at the provider, and told before it is told that they were paid
        params: Any = {"payment_intent": session["payment_intent"], "amount": 400}
        await asyncio.to_thread(library.v1.refunds.create, params)
    await till.told()
    assert {(await till.read(one["id"])).state for one in payments[:4]} == {"partially_refunded"}
    assert {(await till.read(one["id"])).state for one in payments[4:]} == {"succeeded"}
    assert (await till.purse.balance()).balance_micros == before + (80 - 16) * MICROS
    assert await till.broken() == []


async def test_a_provider_that_comes_back_from_a_kill_has_forgotten_nothing(till: Till):
    payment = await till.top_up(15)
    await asyncio.to_thread(till.provider.kill)
    assert refusal(await till.ask(15)) == (503, "payment_provider_away")
    await asyncio.to_thread(till.provider.start)
    await till.pay(payment)
    await till.until(payment["id"], "succeeded")


async def test_a_key_the_provider_does_not_know_is_the_operators_to_mend(till: Till):
    from gpuaas.infra.payments.stripe_provider import StripePayments
    from gpuaas.ports.payments import PaymentProvider

    parts = till.purse.city.parts
    wrong = StripePayments("sk_test_that_nobody_knows", till.provider.url)
    parts._parts[PaymentProvider] = wrong
    try:
        assert refusal(await till.ask(15)) == (503, "payment_provider_away")
    finally:
        parts._parts[PaymentProvider] = till.stripe
        await wrong.close()
