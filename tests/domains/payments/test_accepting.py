"""Another amount than was asked for: an operator accepts what was taken, two of them when it is much."""

from typing import Any

from gpuaas.kit.ids import new_id
from tests.support.people import Person, found, refusal
from tests.support.till import MICROS, Till, notice, session_of


async def mismatched(till: Till, units: float, **changes: Any) -> str:
    payment = await till.read((await till.top_up(50))["id"])
    about = session_of(payment, amount_total=int(units * 100), **changes)
    await till.send(notice("checkout.session.completed", about))
    await till.react()
    assert (await till.read(payment.id)).state == "failed_reconcile"
    return str(payment.id)


async def accept(till: Till, payment_id: str, by: Person) -> Any:
    path = f"/admin/payments/{payment_id}/accept"
    return await till.purse.city.ask(by, "POST", path, {"reason": "the page was changed by hand"})


async def test_what_was_taken_is_credited_once_and_is_the_payments_amount(till: Till):
    payment_id, operator = await mismatched(till, 30), await till.purse.city.admin()
    before = (await till.purse.balance()).balance_micros
    shown = found(await accept(till, payment_id, operator), 200)
    assert (shown["state"], shown["amount_micros"], shown["failure"]) == ("succeeded", 30 * MICROS, "")
    assert refusal(await accept(till, payment_id, operator)) == (409, "state_move_refused")
    payment = await till.read(payment_id)
    await till.send(notice("checkout.session.completed", session_of(payment)))
    await till.react()
    assert (await till.purse.balance()).balance_micros == before + 30 * MICROS
    assert len(await till.events("payments.succeeded", payment_id)) == 1
    audited = await till.rows("SELECT action FROM audit_log WHERE subject_id = $1", payment.id)
    assert [row["action"] for row in audited].count("payment.accept") == 1
    assert await till.broken() == []


async def test_much_is_credited_when_two_operators_accept_it(till: Till):
    payment_id = await mismatched(till, 500)
    before = (await till.purse.balance()).balance_micros
    first = found(await accept(till, payment_id, till.purse.admin), 200)
    assert (first["state"], bool(first["accept_by"])) == ("failed_reconcile", True)
    assert refusal(await accept(till, payment_id, till.purse.admin)) == (403, "adjustment_own")
    assert (await till.purse.balance()).balance_micros == before
    assert found(await accept(till, payment_id, till.purse.second_admin), 200)["state"] == "succeeded"
    assert (await till.purse.balance()).balance_micros == before + 500 * MICROS
    assert await till.broken() == []


async def test_a_refund_made_meanwhile_is_taken_once_it_is_accepted(till: Till):
    intent_id = f"pi_{new_id().hex}"
    payment_id, operator = await mismatched(till, 30, payment_intent=intent_id), await till.purse.city.admin()
    before = (await till.purse.balance()).balance_micros
    refund = {"id": f"re_{new_id().hex}", "amount": 3000, "currency": "usd", "status": "succeeded"}
    await till.send(notice("refund.created", refund | {"payment_intent": intent_id}))
    await till.react()
    found(await accept(till, payment_id, operator), 200)
    await till.react()
    assert (await till.purse.balance()).balance_micros == before
    assert (await till.read(payment_id)).state == "refunded"
    assert await till.broken() == []


async def test_what_cannot_be_counted_here_or_did_not_fail_is_not_accepted(till: Till):
    operator = await till.purse.city.admin()
    yen = await mismatched(till, 30, currency="jpy")
    assert refusal(await accept(till, yen, operator)) == (422, "payment_currency_refused")
    paid = await till.paid(50)
    assert refusal(await accept(till, paid["id"], operator)) == (409, "state_move_refused")
    assert refusal(await accept(till, str(new_id()), operator)) == (404, "payment_missing")
