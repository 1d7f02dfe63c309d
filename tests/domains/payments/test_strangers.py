"""What strangers' pages, refunds and names at the same provider do to our payments: nothing, and they are told."""

import asyncio
from typing import Any

import pytest

from gpuaas.kit.ids import new_id
from tests.support.till import MICROS, Till, notice, session_of


@pytest.fixture(autouse=True)
async def healthy(till: Till):
    yield
    await till.order("clear")
    await till.told()


@pytest.mark.parametrize(
    "changes",
    [
        {"payment_status": "paid", "status": "complete", "amount_total": 500},
        {"payment_status": "paid", "status": "complete"},
        {"payment_status": "unpaid", "status": "expired"},
        {"payment_status": "unpaid", "status": "complete"},
    ],
    ids=str,
)
async def test_another_page_with_our_name_on_it_does_not_keep_the_payment_from_being_paid(
    till: Till, changes: dict[str, Any]
):
    payment = await till.read((await till.top_up(50))["id"])
    before = (await till.purse.balance()).balance_micros
    strange = session_of(payment, id=f"cs_{new_id().hex}", payment_intent=f"pi_{new_id().hex}", **changes)
    for about in (strange, strange | {"id": f"cs_{new_id().hex}", "metadata": {}}):
        await till.send(notice("checkout.session.completed", about))
        await till.react()
    assert ((await till.read(payment.id)).state, (await till.purse.balance()).balance_micros) == ("open", before)
    await till.pay({"session_id": payment.session_id})
    await till.until(str(payment.id), "succeeded")
    assert (await till.purse.balance()).balance_micros == before + 50 * MICROS


async def test_a_name_that_anybody_may_write_makes_no_page_ours(till: Till):
    """Whoever follows a payment link chooses its client_reference_id."""
    payment = await till.read((await till.top_up(50))["id"])
    strange = session_of(payment, id=f"cs_{new_id().hex}", metadata={}, payment_intent=f"pi_{new_id().hex}")
    body = notice("checkout.session.completed", strange)
    await till.send(body)
    await till.react()
    [row] = await till.rows("SELECT state FROM webhook_events WHERE object_id = $1", strange["id"])
    assert (row["state"], (await till.read(payment.id)).state) == ("ignored", "open")


async def test_a_second_page_paid_for_a_payment_that_is_paid_is_told_as_a_difference(till: Till):
    payment = await till.paid(50)
    library = await asyncio.to_thread(till.provider.library)
    price = {"currency": "usd", "unit_amount": 5000, "product_data": {"name": "x"}}
    params: Any = {
        "mode": "payment",
        "line_items": [{"quantity": 1, "price_data": price}],
        "metadata": {"payment_id": payment["id"]},
        "success_url": "http://127.0.0.1:9/",
    }
    made = await asyncio.to_thread(library.v1.checkout.sessions.create, params)
    before = (await till.purse.balance()).balance_micros
    await till.order("pay", session=made["id"])
    await till.told()
    await till.reconcile()
    assert (await till.purse.balance()).balance_micros == before
    listed = (await till.purse.city.get(till.purse.admin, "/admin/payment-differences"))["items"]
    [one] = [one for one in listed if one["object_id"] == made["id"]]
    assert (one["payment_id"], one["theirs_micros"]) == (payment["id"], 50 * MICROS)


async def test_a_strangers_refund_is_no_side_of_our_equation(till: Till):
    library = await asyncio.to_thread(till.provider.library)
    price = {"currency": "usd", "unit_amount": 700, "product_data": {"name": "x"}}
    params: Any = {"mode": "payment", "line_items": [{"quantity": 1, "price_data": price}]}
    made = await asyncio.to_thread(library.v1.checkout.sessions.create, params | {"success_url": "http://127.0.0.1:9/"})
    await till.order("pay", session=made["id"])
    session = await asyncio.to_thread(library.v1.checkout.sessions.retrieve, made["id"])
    asked: Any = {"payment_intent": session["payment_intent"], "amount": 300}
    refund = await asyncio.to_thread(library.v1.refunds.create, asked)
    await till.reconcile()
    assert await till.rows("SELECT FROM payment_statements WHERE object_id = ANY($1)", [made["id"], refund["id"]]) == []
    listed = (await till.purse.city.get(till.purse.admin, "/admin/payment-differences"))["items"]
    assert {one["kind"] for one in listed if one["object_id"] in (made["id"], refund["id"])} == {"not_ours"}


async def test_the_page_that_was_paid_says_what_a_refund_is_asked_of(till: Till):
    """A refused try may have named another intent than the one that was paid in the end."""
    payment = await till.read((await till.top_up(50))["id"])
    refused = {"id": f"pi_{new_id().hex}", "metadata": {"payment_id": str(payment.id)}}
    await till.send(notice("payment_intent.payment_failed", refused))
    await till.react()
    paid = session_of(payment, payment_intent=f"pi_{new_id().hex}")
    await till.send(notice("checkout.session.completed", paid))
    await till.react()
    after = await till.read(payment.id)
    assert (after.state, after.intent_id) == ("succeeded", paid["payment_intent"])
