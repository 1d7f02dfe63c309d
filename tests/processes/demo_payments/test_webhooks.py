"""Webhooks: signed as the library expects, sent until taken, never forgotten; and each way they go wrong, on tap."""

import time
from typing import Any

import pytest
import stripe

from tests.support.payment_provider import (
    CONTROL_KEY,
    WEBHOOK_SECRET,
    Taken,
    WebhookTaker,
    until,
    wanted,
)

COMPLETED = "checkout.session.completed"


def test_a_payment_is_told_with_a_signature_the_library_believes(provider, library, taker):
    made = library.v1.checkout.sessions.create(wanted())
    provider.order("pay", session=made.id)
    (told,) = taker.await_types(COMPLETED)
    event = believed(told)
    assert event.type == COMPLETED
    assert event.data.object.id == made.id
    assert event.data.object.payment_status == "paid"
    assert event.data.object.amount_total == 5000
    assert until(lambda: library.v1.events.retrieve(event.id).pending_webhooks == 0)


@pytest.mark.parametrize(
    ("good", "ending", "status"),
    [
        (True, "checkout.session.async_payment_succeeded", "paid"),
        (False, "checkout.session.async_payment_failed", "unpaid"),
    ],
)
def test_a_bank_transfer_is_complete_first_and_decided_later(provider, library, taker, good, ending, status):
    made = library.v1.checkout.sessions.create(wanted())
    provider.order("pay", session=made.id, how="bank" if good else "bank_fails")
    taker.await_types(COMPLETED, ending)
    completed, decided = (next(one for one in taker.of(made.id) if one.type == kind) for kind in (COMPLETED, ending))
    assert believed(completed).data.object.payment_status == "unpaid"
    assert believed(decided).data.object.payment_status == status
    assert library.v1.checkout.sessions.retrieve(made.id).payment_status == status


def test_each_thing_that_concerns_money_is_told(provider, library, taker):
    expired = library.v1.checkout.sessions.create(wanted())
    library.v1.checkout.sessions.expire(expired.id)
    made = library.v1.checkout.sessions.create(wanted())
    provider.order("pay", session=made.id, how="declined")
    intent = provider.order("pay", session=made.id)["done"]["payment_intent"]
    library.v1.refunds.create({"payment_intent": intent, "amount": 100}, {"idempotency_key": "some-of-it"})
    provider.order("refunds", pending=True)
    pending = library.v1.refunds.create({"payment_intent": intent, "amount": 200})
    provider.order("settle_refund", refund=pending.id, good=False)
    charge = library.v1.payment_intents.retrieve(intent).latest_charge
    dispute = provider.order("dispute", charge=charge)["done"]["id"]
    provider.order("close_dispute", dispute=dispute)
    told = taker.await_types(
        "checkout.session.expired",
        "payment_intent.payment_failed",
        COMPLETED,
        *("charge.refunded", "refund.created") * 2,
        "refund.failed",
        "refund.updated",
        "charge.dispute.created",
        "charge.dispute.closed",
    )
    asked = next(believed(one) for one in told if one.type == "refund.created")
    assert asked.request.idempotency_key == "some-of-it"


def test_what_is_refused_is_sent_again_and_signed_anew(provider, library, taker):
    taker.status = 500
    made = library.v1.checkout.sessions.create(wanted())
    provider.order("pay", session=made.id)
    until(lambda: len(taker.taken) >= 3)
    taker.status = 204
    until(lambda: provider.order("status")["untold"] == 0)
    assert len({one.body for one in taker.taken}) == 1
    assert len({one.signature.partition(",")[0] for one in taker.taken}) > 1
    for one in taker.taken:
        believed(one)


def test_what_was_paid_before_a_kill_is_told_after_it(own, taker):
    provider = own.start()
    taker.taken.clear()
    library = provider.library()
    provider.order("webhooks", paused=True)
    made = library.v1.checkout.sessions.create(wanted(), {"idempotency_key": "before"})
    provider.order("pay", session=made.id)
    provider.kill()
    assert taker.taken == []

    provider.start()
    (told,) = taker.await_types(COMPLETED)
    assert believed(told).data.object.id == made.id
    assert library.v1.checkout.sessions.retrieve(made.id).payment_status == "paid"
    again = library.v1.checkout.sessions.create(wanted(), {"idempotency_key": "before"})
    assert again.to_dict() == made.to_dict()
    until(lambda: provider.order("status")["untold"] == 0)
    provider.kill()
    taker.taken.clear()
    provider.start()
    assert provider.order("status")["untold"] == 0
    assert provider.stop() == 0


def test_kills_at_any_moment_lose_no_answered_charge(own, taker):
    provider = own
    taker.taken.clear()
    paid: set[str] = set()
    for _ in range(4):
        provider.start()
        library = provider.library()
        made = [library.v1.checkout.sessions.create(wanted()).id for _ in range(5)]
        for session in made:
            provider.order("pay", session=session)
            paid.add(session)
        provider.kill()
    provider.start()
    library = provider.library()
    kept = library.v1.checkout.sessions.list({"limit": 100, "status": "complete"})
    assert {one.id for one in kept.data} == paid
    until(lambda: {one.event["data"]["object"]["id"] for one in taker.taken} >= paid)
    assert provider.stop() == 0


def test_a_line_cut_off_by_a_kill_never_counted(own, taker):
    provider = own.start()
    made = provider.library().v1.customers.create({"email": "a@example.com"})
    provider.kill()
    file = provider.folder / "provider.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"put":[{"id":"cus_half"')
    provider.start()
    assert provider.library().v1.customers.retrieve(made.id).email == "a@example.com"
    assert file.read_bytes() == whole
    assert provider.stop() == 0


def test_paused_webhooks_come_when_they_may(provider, library, taker):
    provider.order("webhooks", paused=True)
    made = library.v1.checkout.sessions.create(wanted())
    provider.order("pay", session=made.id)
    time.sleep(1)
    assert taker.taken == []
    assert provider.order("webhooks")["untold"] == 1
    taker.await_types(COMPLETED)


def test_webhooks_come_several_times_when_ordered(provider, library, taker):
    provider.order("webhooks", copies=3)
    made = library.v1.checkout.sessions.create(wanted())
    provider.order("pay", session=made.id)
    taker.await_types(COMPLETED, COMPLETED, COMPLETED)
    assert len({one.event["id"] for one in taker.taken}) == 1


def test_webhooks_come_newest_first_when_ordered(provider, library, taker):
    provider.order("webhooks", reorder_seconds=1)
    made = library.v1.checkout.sessions.create(wanted())
    provider.order("pay", session=made.id, how="declined")
    intent = provider.order("pay", session=made.id)["done"]["payment_intent"]
    library.v1.refunds.create({"payment_intent": intent})
    told = taker.await_types("charge.refunded", "refund.created", COMPLETED, "payment_intent.payment_failed")
    assert [one.type for one in told] == [
        "charge.refunded",
        "refund.created",
        COMPLETED,
        "payment_intent.payment_failed",
    ]


def test_late_webhooks_are_outside_what_the_library_tolerates(provider, library, taker):
    provider.order("webhooks", aged_seconds=301)
    taker.status = 400
    made = library.v1.checkout.sessions.create(wanted())
    provider.order("pay", session=made.id)
    (late,) = taker.await_types(COMPLETED)[:1]
    with pytest.raises(stripe.SignatureVerificationError, match="outside the tolerance"):
        believed(late)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("wrong_secret", "No signatures found matching"),
        ("unsigned", "No Stripe-Signature header"),
        ("altered", "No signatures found matching"),
        ("old", "outside the tolerance"),
    ],
)
def test_a_forged_webhook_is_one_the_library_refuses(provider, taker, how, why):
    taker.status = 400
    said = provider.order("forge", how=how, about={"id": "cs_forged", "payment_status": "paid"})
    assert said["done"] == {"status": 400}
    (forged,) = taker.taken
    assert forged.event["data"]["object"]["id"] == "cs_forged"
    with pytest.raises(stripe.SignatureVerificationError, match=why):
        believed(forged)


def test_the_log_has_no_key_in_it(provider, library, taker: WebhookTaker):
    taker.status = 500
    library.v1.checkout.sessions.expire(library.v1.checkout.sessions.create(wanted()).id)
    until(lambda: len(taker.taken) >= 1)
    until(lambda: "webhook not taken" in provider.log)
    for secret in (provider.environment["GPUAAS_STRIPE_SECRET_KEY"], WEBHOOK_SECRET, CONTROL_KEY):
        assert secret not in provider.log


def believed(told: Taken) -> Any:
    return stripe.Webhook.construct_event(told.body, told.signature, WEBHOOK_SECRET)
