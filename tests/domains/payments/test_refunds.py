"""Money that goes back: refunds by operators, refunds begun at the provider, and disputes."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from gpuaas.domains.payments.refunds import handlers
from gpuaas.kit.ids import new_id
from tests.every.payment_stories import refund
from tests.support.people import Person, at_once, found, refusal
from tests.support.till import MICROS, Till, notice


async def ask(till: Till, payment_id: str, units: float | None, by: Person | None = None) -> Any:
    body: dict[str, Any] = {"reason": "asked for by the customer"}
    if units is not None:
        body["amount_micros"] = int(units * MICROS)
    path = f"/admin/payments/{payment_id}/refunds"
    return await till.purse.city.ask(by or await till.purse.city.admin(), "POST", path, body)


async def refund_row(till: Till, refund_id: Any) -> Any:
    return (await till.rows("SELECT * FROM payment_refunds WHERE id = $1", UUID(str(refund_id))))[0]


async def spend(till: Till) -> None:
    """All the organisation has."""
    left = (await till.purse.balance()).available_micros
    if left > 0:
        await till.purse.post(-left)


async def test_a_refund_of_all_that_is_left_ends_the_payment_as_refunded(till: Till):
    payment = await till.paid(50)
    before = (await till.purse.balance()).balance_micros
    for units, state in ((20, "partially_refunded"), (None, "refunded")):
        found(await ask(till, payment["id"], units), 202)
        await till.run_flows()
        assert (await till.read(payment["id"])).state == state
    await till.told()
    shown = await till.show(payment["id"])
    assert shown["refunded_micros"] == 50 * MICROS
    assert (await till.purse.balance()).balance_micros == before - 50 * MICROS
    assert refusal(await ask(till, payment["id"], 1)) == (422, "refund_too_large")
    assert await till.broken() == []


@pytest.mark.parametrize("units", [50.01, 60, 12.345678])
async def test_more_than_was_paid_or_parts_of_cents_are_not_refunded(till: Till, units: float):
    payment = await till.paid(50)
    assert refusal(await ask(till, payment["id"], units))[0] == 422


async def test_many_refunds_at_once_give_back_no_more_than_was_paid(till: Till):
    payment = await till.paid(50)
    before = (await till.purse.balance()).balance_micros
    answers = await at_once(*(ask(till, payment["id"], 20) for _ in range(6)))
    assert sorted(one.status_code for one in answers) == [202, 202, 422, 422, 422, 422]
    await till.run_flows()
    await till.told()
    assert (await till.purse.balance()).balance_micros == before - 40 * MICROS
    assert await till.broken() == []


async def test_what_was_spent_is_not_refunded_and_the_provider_is_not_even_asked(till: Till):
    payment = await till.paid(50)
    await spend(till)
    refund_id = await refund(till, payment["id"], 20)
    await till.run_flows()
    row = await refund_row(till, refund_id)
    assert (row["state"], row["failure"]) == ("failed", "the organisation has spent it already")
    since = (await till.read(payment["id"])).created_at
    assert [one async for one in till.stripe.refunds(since) if one.refund_id == refund_id] == []
    assert len(await till.events("payments.refund_failed", payment["id"])) == 1


async def test_a_payment_nobody_paid_is_not_refunded(till: Till):
    payment = await till.top_up(50)
    assert refusal(await ask(till, payment["id"], 20)) == (409, "state_move_refused")
    assert refusal(await ask(till, str(new_id()), 20)) == (404, "payment_missing")


async def test_a_large_refund_waits_for_a_second_operator(till: Till):
    payment = await till.paid(500)
    made = found(await ask(till, payment["id"], 400, till.purse.admin), 202)
    assert made["state"] == "proposed"
    await till.run_flows()
    assert (await till.read(payment["id"])).refunded_micros == 0
    path, body = f"/admin/refunds/{made['id']}/approve", {"reason": "agreed"}
    assert refusal(await till.purse.city.ask(till.purse.admin, "POST", path, body)) == (403, "refund_own")
    assert refusal(await ask(till, payment["id"], 200)) == (422, "refund_too_large")
    agreed = found(await till.purse.city.ask(till.purse.second_admin, "POST", path, body), 200)
    assert agreed["state"] == "requested"
    assert refusal(await till.purse.city.ask(till.purse.second_admin, "POST", path, body)) == (
        409,
        "state_move_refused",
    )
    await till.run_flows()
    assert (await till.read(payment["id"])).refunded_micros == 400 * MICROS
    [listed] = (await till.purse.city.get(till.purse.admin, "/admin/refunds", payment_id=payment["id"]))["items"]
    assert (listed["state"], listed["decision"]) == ("succeeded", "agreed")


async def test_many_small_refunds_of_one_operator_within_a_day_are_a_large_one(till: Till):
    payment, operator = await till.paid(500), await till.purse.city.admin()
    states = [found(await ask(till, payment["id"], 30, operator), 202)["state"] for _ in range(4)]
    assert states == ["requested", "requested", "requested", "proposed"]
    assert found(await ask(till, payment["id"], 30), 202)["state"] == "requested"
    await till.run_flows()
    assert (await till.read(payment["id"])).refunded_micros == 120 * MICROS


async def test_a_proposed_refund_is_rejected_or_expires(till: Till, superuser: Any):
    payment = await till.paid(500)
    first, second = [found(await ask(till, payment["id"], 200), 202)["id"] for _ in range(2)]
    path = f"/admin/refunds/{first}/reject"
    body = {"reason": "not so"}
    assert found(await till.purse.city.ask(till.purse.admin, "POST", path, body), 200)["state"] == "rejected"
    await superuser.execute("UPDATE payment_refunds SET due_at = now() WHERE id = $1", UUID(second))
    await handlers.refunds_end_due(till.purse.city.parts)
    assert (await refund_row(till, second))["state"] == "expired"
    assert found(await ask(till, payment["id"], 99), 202)["state"] == "requested"
    await till.run_flows()


async def test_a_refund_that_does_not_arrive_is_in_the_balance_again(till: Till):
    payment = await till.paid(50)
    before = (await till.purse.balance()).balance_micros
    await till.order("refunds", pending=True)
    refund_id = await refund(till, payment["id"], 20)
    await till.run_flows()
    assert (await till.purse.balance()).balance_micros == before - 20 * MICROS
    object_id = (await refund_row(till, refund_id))["provider_refund_id"]
    await till.order("settle_refund", refund=object_id, good=False)
    await till.told()
    await till.order("clear")
    assert (await till.purse.balance()).balance_micros == before
    assert (await refund_row(till, refund_id))["state"] == "failed"
    shown = await till.show(payment["id"])
    assert (shown["state"], shown["refunded_micros"]) == ("succeeded", 0)
    assert await till.broken() == []


async def begun_there(till: Till, payment: dict[str, Any], cents: int) -> None:
    library = await asyncio.to_thread(till.provider.library)
    intent_id = (await till.read(payment["id"])).intent_id
    params: Any = {"payment_intent": intent_id, "amount": cents}
    await asyncio.to_thread(library.v1.refunds.create, params)
    await till.told()


async def test_a_refund_begun_at_the_provider_is_taken_from_the_balance(till: Till):
    payment = await till.paid(50)
    before = (await till.purse.balance()).balance_micros
    await begun_there(till, payment, 1000)
    assert (await till.purse.balance()).balance_micros == before - 10 * MICROS
    [told] = await till.events("payments.refunded", payment["id"])
    assert (told["refund_id"], told["uncovered_micros"]) == (None, 0)


async def test_what_the_organisation_had_spent_of_it_is_ours_to_lose(till: Till):
    payment = await till.paid(50)
    await spend(till)
    await till.purse.top_up(3 * MICROS)
    await begun_there(till, payment, 1000)
    assert (await till.purse.balance()).balance_micros == 0
    [told] = await till.events("payments.refunded", payment["id"])
    assert (told["amount_micros"], told["uncovered_micros"]) == (10 * MICROS, 7 * MICROS)
    assert await till.broken() == []


async def test_a_refund_that_does_not_arrive_gives_back_only_what_the_organisation_gave(till: Till):
    payment = await till.paid(50)
    await spend(till)
    await till.purse.top_up(3 * MICROS)
    await till.order("refunds", pending=True)
    await begun_there(till, payment, 1000)
    assert (await till.purse.balance()).balance_micros == 0
    [row] = await till.rows(
        "SELECT object_id FROM payment_effects WHERE payment_id = $1 AND effect = 'refunded'", UUID(payment["id"])
    )
    await till.order("settle_refund", refund=row["object_id"], good=False)
    await till.told()
    await till.order("clear")
    assert (await till.purse.balance()).balance_micros == 3 * MICROS
    assert (await till.read(payment["id"])).refunded_micros == 0
    assert await till.broken() == []


async def test_a_refund_of_nothing_the_organisation_had_gives_it_nothing_when_it_does_not_arrive(till: Till):
    payment = await till.paid(50)
    await spend(till)
    await till.order("refunds", pending=True)
    await begun_there(till, payment, 1000)
    [row] = await till.rows(
        "SELECT object_id FROM payment_effects WHERE payment_id = $1 AND effect = 'refunded'", UUID(payment["id"])
    )
    await till.order("settle_refund", refund=row["object_id"], good=False)
    await till.told()
    await till.order("clear")
    assert (await till.purse.balance()).balance_micros == 0
    assert await till.broken() == []


async def test_many_small_refunds_at_once_are_a_large_one_too(till: Till):
    payments, operator = [await till.paid(60) for _ in range(4)], await till.purse.city.admin()
    answers = await at_once(*(ask(till, payment["id"], 40, operator) for payment in payments))
    states = sorted(found(one, 202)["state"] for one in answers)
    assert states == ["proposed", "proposed", "requested", "requested"]
    await till.run_flows()


async def test_two_refunds_of_the_provider_with_one_name_of_ours_are_both_taken(till: Till):
    payment = await till.paid(50)
    before = (await till.purse.balance()).balance_micros
    refund_id = await refund(till, payment["id"], 20)
    await till.run_flows()
    library = await asyncio.to_thread(till.provider.library)
    params: Any = {
        "payment_intent": (await till.read(payment["id"])).intent_id,
        "amount": 500,
        "metadata": {"refund_id": str(refund_id)},
    }
    await asyncio.to_thread(library.v1.refunds.create, params)
    await till.told()
    assert (await till.purse.balance()).balance_micros == before - 25 * MICROS
    assert (await till.read(payment["id"])).refunded_micros == 25 * MICROS
    assert await till.broken() == []


async def test_a_dispute_that_was_lost_stays_lost_whatever_becomes_of_another(till: Till):
    payment = await till.paid(50)
    intent_id = (await till.read(payment["id"])).intent_id
    for outcome in ("lost", "won"):
        about = {"id": f"dp_{new_id().hex}", "amount": 2000, "currency": "usd", "payment_intent": intent_id}
        await till.send(notice("charge.dispute.closed", about | {"status": outcome}))
        await till.react()
    assert (await till.read(payment["id"])).state == "disputed"
    assert refusal(await ask(till, payment["id"], 50)) == (409, "state_move_refused")
    assert await till.broken() == []


async def test_a_disputed_payment_is_set_aside_and_free_again_when_it_is_won(till: Till):
    payment = await till.paid(50)
    before = await till.purse.balance()
    dispute_id = await till.dispute(payment)
    during = await till.purse.balance()
    assert during.balance_micros == before.balance_micros
    assert during.held_micros == before.held_micros + 50 * MICROS
    assert refusal(await ask(till, payment["id"], 5)) == (409, "state_move_refused")
    await till.order("close_dispute", dispute=dispute_id, won=True)
    await till.told()
    after = await till.purse.balance()
    assert (after.balance_micros, after.held_micros) == (before.balance_micros, before.held_micros)
    assert (await till.read(payment["id"])).state == "succeeded"
    assert [one["outcome"] for one in await till.events("payments.disputed", payment["id"])] == ["opened", "won"]


async def test_a_lost_dispute_is_taken_and_what_was_spent_is_ours_to_lose(till: Till):
    payment = await till.paid(50)
    await spend(till)
    await till.purse.top_up(8 * MICROS)
    dispute_id = await till.dispute(payment)
    assert (await till.purse.balance()).available_micros == 0
    await till.order("close_dispute", dispute=dispute_id, won=False)
    await till.told()
    assert (await till.purse.balance()).balance_micros == 0
    shown = await till.show(payment["id"])
    assert (shown["state"], shown["disputed_micros"]) == ("disputed", 50 * MICROS)
    told = await till.events("payments.disputed", payment["id"])
    assert [(one["outcome"], one["uncovered_micros"]) for one in told] == [
        ("opened", 42 * MICROS),
        ("lost", 42 * MICROS),
    ]
    assert await till.broken() == []
