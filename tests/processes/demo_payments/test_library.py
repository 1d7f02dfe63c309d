"""The official library works against the demo provider as it does against the real one."""

import time

import pytest
import stripe

from tests.support.payment_provider import DemoProvider, wanted


def test_a_customer_keeps_what_was_said_of_him(library):
    made = library.v1.customers.create({"email": "a@example.com", "name": "Ann", "metadata": {"org_id": "1"}})
    library.v1.customers.update(made.id, {"name": "Anna", "metadata": {"more": "2"}})
    found = library.v1.customers.retrieve(made.id)
    assert (found.email, found.name) == ("a@example.com", "Anna")
    assert dict(found.metadata.to_dict()) == {"org_id": "1", "more": "2"}


def test_a_session_is_open_until_it_is_paid(provider, library):
    customer = library.v1.customers.create({"email": "a@example.com"})
    made = library.v1.checkout.sessions.create(wanted(customer=customer.id))
    assert made.url == f"{provider.url}/pay/{made.id}"
    assert (made.status, made.payment_status, made.payment_intent) == ("open", "unpaid", None)
    assert (made.amount_total, made.currency, made.client_reference_id) == (5000, "usd", "payment-1")

    provider.order("pay", session=made.id)

    paid = library.v1.checkout.sessions.retrieve(made.id, {"expand": ["payment_intent.latest_charge", "line_items"]})
    assert (paid.status, paid.payment_status, paid.url) == ("complete", "paid", None)
    assert paid.payment_intent.status == "succeeded"
    assert paid.payment_intent.amount_received == 5000
    assert paid.payment_intent.metadata["payment_id"] == "payment-1"
    assert paid.payment_intent.latest_charge.paid
    assert paid.line_items.data[0].description == "Top-up"
    assert library.v1.payment_intents.retrieve(paid.payment_intent.id).status == "succeeded"


def test_a_declined_card_leaves_the_session_open_for_another(provider, library):
    made = library.v1.checkout.sessions.create(wanted())
    provider.order("pay", session=made.id, how="declined")
    declined = library.v1.checkout.sessions.retrieve(made.id, {"expand": ["payment_intent"]})
    assert (declined.status, declined.payment_intent.last_payment_error.code) == ("open", "card_declined")

    provider.order("pay", session=made.id)
    paid = library.v1.checkout.sessions.retrieve(made.id, {"expand": ["payment_intent"]})
    assert paid.payment_intent.id == declined.payment_intent.id
    assert paid.payment_intent.last_payment_error is None


def test_an_expired_session_cannot_expire_again(library):
    made = library.v1.checkout.sessions.create(wanted())
    assert library.v1.checkout.sessions.expire(made.id).status == "expired"
    with pytest.raises(stripe.InvalidRequestError, match="status of `expired`"):
        library.v1.checkout.sessions.expire(made.id)


def test_a_session_that_nobody_pays_expires_by_itself(provider, library):
    made = library.v1.checkout.sessions.create(wanted(expires_at=int(time.time()) + 1800))
    assert library.v1.checkout.sessions.retrieve(made.id).status == "open"
    provider.order("later", seconds=1900)
    assert library.v1.checkout.sessions.retrieve(made.id).status == "expired"


@pytest.mark.parametrize("seconds", [60, 90_000, -5])
def test_a_session_lives_between_half_an_hour_and_a_day(library, seconds):
    with pytest.raises(stripe.InvalidRequestError) as refused:
        library.v1.checkout.sessions.create(wanted(expires_at=int(time.time()) + seconds - 10_000_000 * (seconds < 0)))
    assert refused.value.param == "expires_at"


def test_a_payment_is_refunded_in_parts_and_never_more_than_it_was(provider, library):
    intent = paid_intent(provider, library)
    first = library.v1.refunds.create({"payment_intent": intent, "amount": 2000, "metadata": {"refund_id": "r1"}})
    assert (first.status, first.amount, first.currency) == ("succeeded", 2000, "usd")
    with pytest.raises(stripe.InvalidRequestError, match="greater than unrefunded"):
        library.v1.refunds.create({"payment_intent": intent, "amount": 3001})
    rest = library.v1.refunds.create({"payment_intent": intent})
    assert rest.amount == 3000
    with pytest.raises(stripe.InvalidRequestError) as refused:
        library.v1.refunds.create({"payment_intent": intent})
    assert refused.value.code == "charge_already_refunded"
    assert [one.id for one in library.v1.refunds.list({"payment_intent": intent}).data] == [rest.id, first.id]
    charge = library.v1.charges.retrieve(rest.charge)
    assert (charge.amount_refunded, charge.refunded) == (5000, True)


def test_a_refund_that_fails_can_be_made_again(provider, library):
    intent = paid_intent(provider, library)
    provider.order("refunds", pending=True)
    first = library.v1.refunds.create({"payment_intent": intent})
    assert first.status == "pending"
    provider.order("settle_refund", refund=first.id, good=False)
    assert library.v1.refunds.retrieve(first.id).status == "failed"
    again = library.v1.refunds.create({"payment_intent": intent})
    provider.order("settle_refund", refund=again.id)
    assert library.v1.refunds.retrieve(again.id).status == "succeeded"


def test_what_was_never_paid_is_not_refunded(provider, library):
    made = library.v1.checkout.sessions.create(wanted())
    provider.order("pay", session=made.id, how="declined")
    intent = library.v1.checkout.sessions.retrieve(made.id).payment_intent
    with pytest.raises(stripe.InvalidRequestError, match="no successful charge"):
        library.v1.refunds.create({"payment_intent": intent})


def test_a_dispute_is_listed_with_its_end(provider, library):
    intent = paid_intent(provider, library)
    charge = library.v1.payment_intents.retrieve(intent).latest_charge
    opened = provider.order("dispute", charge=charge)["done"]["id"]
    assert library.v1.disputes.list({"payment_intent": intent}).data[0].status == "needs_response"
    with pytest.raises(stripe.InvalidRequestError, match="charged back"):
        library.v1.refunds.create({"payment_intent": intent})
    provider.order("close_dispute", dispute=opened, won=False)
    assert library.v1.disputes.retrieve(opened).status == "lost"


def test_lists_are_paged_from_newest_to_oldest_and_back(library):
    customer = library.v1.customers.create({"email": "many@example.com"})
    made = [library.v1.checkout.sessions.create(wanted(customer=customer.id)).id for _ in range(7)]
    mine = {"customer": customer.id, "limit": 3}

    first = library.v1.checkout.sessions.list(mine)
    assert [one.id for one in first.data] == made[:3:-1]
    assert first.has_more
    everyone = [one.id for one in first.auto_paging_iter()]
    assert everyone == made[::-1]

    last = library.v1.checkout.sessions.list({**mine, "starting_after": made[1]})
    assert ([one.id for one in last.data], last.has_more) == ([made[0]], False)
    newer = library.v1.checkout.sessions.list({**mine, "ending_before": made[2]})
    assert ([one.id for one in newer.data], newer.has_more) == ([made[5], made[4], made[3]], True)
    with pytest.raises(stripe.InvalidRequestError, match=r"No such checkout\.session"):
        library.v1.checkout.sessions.list({**mine, "starting_after": customer.id})


def test_lists_begin_at_an_instant(provider, library):
    provider.order("later", seconds=100)
    before = library.v1.customers.create({"email": "instant@example.com"})
    provider.order("later", seconds=100)
    after = library.v1.customers.create({"email": "instant@example.com"})
    mine = {"email": "instant@example.com"}
    assert [one.id for one in library.v1.customers.list({**mine, "created": {"gte": after.created}}).data] == [after.id]
    assert [one.id for one in library.v1.customers.list({**mine, "created": {"lt": after.created}}).data] == [before.id]
    assert [one.id for one in library.v1.customers.list({**mine, "created": before.created}).data] == [before.id]


def test_the_same_key_gets_the_same_answer_and_makes_one_thing(provider, library):
    mine = library.v1.customers.create({"email": "once@example.com"}).id
    first = library.v1.checkout.sessions.create(wanted(customer=mine), {"idempotency_key": "once"})
    provider.order("pay", session=first.id)
    again = library.v1.checkout.sessions.create(wanted(customer=mine), {"idempotency_key": "once"})
    assert again.to_dict() == first.to_dict()
    assert again.last_response.headers["idempotent-replayed"] == "true"
    assert len(library.v1.checkout.sessions.list({"customer": mine}).data) == 1


def test_the_same_key_with_other_parameters_is_refused(library):
    library.v1.customers.create({"email": "a@example.com"}, {"idempotency_key": "other"})
    with pytest.raises(stripe.IdempotencyError, match="same parameters"):
        library.v1.customers.create({"email": "b@example.com"}, {"idempotency_key": "other"})
    with pytest.raises(stripe.IdempotencyError):
        library.v1.checkout.sessions.create(wanted(), {"idempotency_key": "other"})


def test_a_refusal_with_things_as_they_were_stays_the_answer_of_its_key(provider, library):
    intent = paid_intent(provider, library)
    library.v1.refunds.create({"payment_intent": intent})
    for _ in range(2):
        with pytest.raises(stripe.InvalidRequestError) as refused:
            library.v1.refunds.create({"payment_intent": intent}, {"idempotency_key": "late"})
        assert refused.value.code == "charge_already_refunded"


def test_a_key_whose_request_was_wrong_may_be_used_again(library):
    with pytest.raises(stripe.InvalidRequestError):
        library.v1.customers.create({"metadata": {"a": "x" * 600}}, {"idempotency_key": "mended"})
    assert library.v1.customers.create({"metadata": {"a": "x"}}, {"idempotency_key": "mended"}).id


def test_a_day_later_a_key_is_new_again(provider, library):
    first = library.v1.customers.create({"email": "a@example.com"}, {"idempotency_key": "day"})
    provider.order("later", seconds=25 * 3600)
    assert library.v1.customers.create({"email": "b@example.com"}, {"idempotency_key": "day"}).id != first.id


@pytest.mark.parametrize(
    ("changed", "param", "code"),
    [
        ({"mode": None}, "mode", "parameter_missing"),
        ({"mode": "subscription"}, "mode", "parameter_invalid"),
        ({"sucess_url": "x"}, "sucess_url", "parameter_unknown"),
        ({"success_url": "javascript:alert(1)"}, "success_url", "parameter_invalid"),
        ({"success_url": "https://"}, "success_url", "parameter_invalid"),
        ({"line_items": []}, "line_items", "parameter_missing"),
        ({"line_items": [{"quantity": 1, "price_data": {"currency": "usd"}}]}, "line_items", "parameter_missing"),
        ({"customer": "cus_nobody"}, "customer", "resource_missing"),
        ({"metadata": {"k" * 41: "v"}}, "metadata", "parameter_invalid"),
        ({"expand": ["payment_method"]}, "expand", None),
    ],
)
def test_a_wrong_parameter_is_named(library, changed, param, code):
    asked = {name: value for name, value in wanted(**changed).items() if value is not None}
    with pytest.raises(stripe.InvalidRequestError) as refused:
        library.v1.checkout.sessions.create(asked)
    assert str(refused.value.param).startswith(param)
    assert refused.value.code == code
    assert str(refused.value.request_id).startswith("req_")


@pytest.mark.parametrize("cents", ["0", "-5", "12.5", "100000000", "ten"])
def test_amounts_are_whole_positive_and_bounded(library, cents):
    price = {"currency": "usd", "unit_amount": cents, "product_data": {"name": "Top-up"}}
    with pytest.raises(stripe.InvalidRequestError) as refused:
        library.v1.checkout.sessions.create(wanted(line_items=[{"quantity": 1, "price_data": price}]))
    assert refused.value.param == "line_items[0][price_data][unit_amount]"


def test_a_wrong_key_opens_nothing(provider: DemoProvider):
    with pytest.raises(stripe.AuthenticationError):
        provider.library("sk_test_of_somebody_else").v1.customers.list()


def paid_intent(provider: DemoProvider, library: stripe.StripeClient) -> str:
    made = library.v1.checkout.sessions.create(wanted())
    return str(provider.order("pay", session=made.id)["done"]["payment_intent"])
