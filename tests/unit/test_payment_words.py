"""Amounts, standings, signatures and Stripe's objects: decided from values alone."""

import json

import pytest
from stripe import WebhookSignature

from gpuaas.contracts.http.payments import PaymentState as S
from gpuaas.domains.payments.amounts import cents_of, check_limits, micros_of
from gpuaas.domains.payments.settlement.standing import standing
from gpuaas.infra.payments.signature import TOLERANCE_SECONDS, verify
from gpuaas.infra.payments.stripe_objects import notice
from gpuaas.kit import clock
from gpuaas.kit.errors import Invalid, Refused
from gpuaas.kit.ids import new_id
from gpuaas.ports.payments import Checkout, Dispute, NoticeUnreadable, Refunding, Refusal


@pytest.mark.parametrize("cents", [1, 99, 100, 12_345, 99_999_999])
def test_hundredths_there_and_back_are_the_same(cents: int) -> None:
    assert cents_of(micros_of(cents), "USD") == cents


@pytest.mark.parametrize("micros", [1, 9_999, 10_001, 12_345_678])
def test_what_is_no_whole_number_of_hundredths_is_refused(micros: int) -> None:
    with pytest.raises(Refused, match="hundredths"):
        cents_of(micros, "USD")


@pytest.mark.parametrize("currency", ["JPY", "KRW", "KWD", "ISK"])
def test_a_currency_without_hundredths_is_refused(currency: str) -> None:
    with pytest.raises(Refused, match="two decimal places"):
        cents_of(50_000_000, currency)


def test_limits_are_said_in_the_refusal() -> None:
    check_limits(5_000_000, "USD", least=5_000_000, most=5_000_000)
    with pytest.raises(Refused, match=r"5\.00 USD to 10\.00 USD"):
        check_limits(4_990_000, "USD", least=5_000_000, most=10_000_000)


@pytest.mark.parametrize(
    ("refunded", "dispute", "expected"),
    [
        (0, "", S.SUCCEEDED),
        (1, "", S.PARTIALLY_REFUNDED),
        (100, "", S.REFUNDED),
        (0, "opened", S.DISPUTED),
        (100, "lost", S.DISPUTED),
        (40, "won", S.PARTIALLY_REFUNDED),
        (0, "won", S.SUCCEEDED),
    ],
)
def test_what_a_payment_is_by_what_went_back(refunded: int, dispute: str, expected: S) -> None:
    assert standing(100, refunded, dispute) is expected


def signed(body: bytes, secret: str, at: int) -> str:
    return str(WebhookSignature.generate_signature_header(body.decode(), secret, at))


def test_a_signature_is_good_for_its_body_its_secret_and_its_time() -> None:
    now, body = clock.epoch_s(), b'{"a":1}'
    secrets = ("whsec_new", "whsec_old")
    for secret in secrets:
        verify(body, signed(body, secret, now), secrets)
        verify(body, signed(body, secret, now - TOLERANCE_SECONDS + 5), secrets)
    two = signed(body, "whsec_unknown", now) + "," + signed(body, "whsec_old", now).split(",")[1]
    verify(body, two, secrets)
    for header, given, known in (
        (signed(body, "whsec_new", now), b'{"a":2}', secrets),
        (signed(body, "whsec_new", now - TOLERANCE_SECONDS - 5), body, secrets),
        (signed(body, "whsec_new", now + TOLERANCE_SECONDS + 5), body, secrets),
        (signed(body, "whsec_other", now), body, secrets),
        (signed(body, "whsec_new", now), body, ()),
        (signed(body, "", now), body, ("",)),
        ("", body, secrets),
        ("t=,v1=", body, secrets),
        ("nonsense", body, secrets),
        (signed(body, "whsec_new", now).replace("v1=", "v0="), body, secrets),
    ):
        with pytest.raises(Invalid):
            verify(given, header, known)


def told(kind: str, **about: object) -> bytes:
    return json.dumps({"id": "evt_1", "type": kind, "data": {"object": {"id": "x_1", **about}}}).encode()


def test_notices_say_what_they_are_about() -> None:
    payment_id = new_id()
    ours = {"payment_id": str(payment_id)}
    paid = notice(told("checkout.session.completed", payment_status="paid", metadata=ours))
    [found] = paid.about
    assert isinstance(found, Checkout)
    assert (found.paid, found.payment_id, paid.event_id, paid.object_id) == (True, payment_id, "evt_1", "x_1")
    [theirs] = notice(
        told("checkout.session.completed", payment_status="paid", client_reference_id=str(payment_id))
    ).about
    assert isinstance(theirs, Checkout)
    assert theirs.payment_id is None, "anybody may say what his page is for; only what we wrote on ours counts"
    [failed] = notice(told("checkout.session.async_payment_failed", status="complete")).about
    assert isinstance(failed, Checkout)
    assert (failed.failed, failed.paid, failed.open) == (True, False, False)
    refund = {"amount": 5, "currency": "usd", "metadata": {"refund_id": str(payment_id)}}
    for kind, status, gone in (("refund.created", "pending", False), ("refund.failed", "failed", True)):
        [back] = notice(told(kind, **refund, status=status)).about
        assert isinstance(back, Refunding)
        assert (back.failed, back.refund_id) == (gone, payment_id)
    [dispute] = notice(told("charge.dispute.closed", amount=5, currency="usd", status="lost")).about
    assert isinstance(dispute, Dispute)
    assert (dispute.closed, dispute.lost) == (True, True)
    listed = {"data": [{"id": "re_1", "amount": 5, "currency": "usd"}]}
    assert [type(one) for one in notice(told("charge.refunded", refunds=listed)).about] == [Refunding]
    [refusal] = notice(told("payment_intent.payment_failed", last_payment_error={"message": "no"})).about
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "no"
    assert notice(told("charge.refunded")).about == []
    assert notice(told("something.new")).about == []
    inquiry = told("charge.dispute.created", amount=5, currency="usd", status="warning_needs_response")
    assert notice(inquiry).about == []


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"id":"","type":"a","data":{"object":{}}}', b"\xff"])
def test_what_is_no_notice_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(NoticeUnreadable):
        notice(body)
