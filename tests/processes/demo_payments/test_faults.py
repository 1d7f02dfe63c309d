"""The provider down, slow, and silent after success: whoever tries again with the same key is charged once."""

import httpx
import pytest
import stripe

from tests.support.payment_provider import DemoProvider, wanted


@pytest.mark.parametrize("status", [0, 500, 503])
def test_a_provider_that_is_down_does_nothing(provider: DemoProvider, status):
    library = provider.library()
    before = len(library.v1.customers.list({"limit": 100}).data)
    provider.order("down", status=status)
    with pytest.raises(stripe.APIConnectionError if status == 0 else stripe.APIError):
        library.v1.customers.create({"email": "a@example.com"})
    provider.order("clear")
    assert len(library.v1.customers.list({"limit": 100}).data) == before


def test_a_short_outage_is_bridged_by_the_library(provider: DemoProvider):
    provider.order("down", times=2)
    library = provider.library(tries_again=3)
    made = library.v1.customers.create({"email": "bridged@example.com"})
    assert [one.id for one in library.v1.customers.list({"email": "bridged@example.com"}).data] == [made.id]
    assert provider.order("status")["in_force"] == []


def test_an_answer_lost_after_success_is_given_again_under_the_same_key(provider: DemoProvider):
    library = provider.library()
    mine = library.v1.customers.create({"email": "lost@example.com"}).id
    provider.order("lost", times=1, path="/v1/checkout")
    with pytest.raises(stripe.APIConnectionError):
        library.v1.checkout.sessions.create(wanted(customer=mine), {"idempotency_key": "lost-1"})
    (kept,) = library.v1.checkout.sessions.list({"customer": mine}).data
    again = library.v1.checkout.sessions.create(wanted(customer=mine), {"idempotency_key": "lost-1"})
    assert again.id == kept.id
    assert len(library.v1.checkout.sessions.list({"customer": mine}).data) == 1


def test_a_refund_whose_answer_is_lost_is_made_once_by_a_library_that_tries_again(provider: DemoProvider):
    library = provider.library(tries_again=2)
    made = library.v1.checkout.sessions.create(wanted())
    intent = provider.order("pay", session=made.id)["done"]["payment_intent"]
    provider.order("lost", times=2, method="post", path="/v1/refunds")
    refund = library.v1.refunds.create({"payment_intent": intent, "amount": 1000})
    assert [one.id for one in library.v1.refunds.list({"payment_intent": intent}).data] == [refund.id]


def test_a_silent_provider_is_given_up_by_its_caller_and_has_done_it(provider: DemoProvider):
    impatient, patient = provider.library(seconds=0.3), provider.library()
    provider.order("lost", times=1, seconds=2)
    with pytest.raises(stripe.APIConnectionError):
        impatient.v1.customers.create({"email": "silent@example.com"})
    assert len(patient.v1.customers.list({"email": "silent@example.com"}).data) == 1


def test_a_slow_provider_answers_late(provider: DemoProvider):
    provider.order("slow", seconds=0.5, times=1)
    library = provider.library()
    assert library.v1.customers.create({"email": "slow@example.com"}).id
    assert provider.order("status")["in_force"] == []


def test_faults_in_force_are_told_and_end_with_a_restart(provider: DemoProvider):
    provider.order("down", path="/v1/refunds", times=3)
    said = provider.order("webhooks", copies=2)["in_force"]
    assert {one["do"] for one in said} == {"down", "webhooks"}
    provider.kill()
    provider.start()
    assert provider.order("status")["in_force"] == []


@pytest.mark.parametrize("key", ["", "Bearer sk_test_of_the_demo_provider", "Bearer x", "control_of_the_demo_provider"])
def test_the_door_opens_to_its_own_key_only(provider: DemoProvider, key):
    answer = httpx.post(f"{provider.url}/control", json={"do": "down"}, headers={"authorization": key} if key else {})
    assert answer.status_code == 401
    assert provider.order("status")["in_force"] == []


def test_without_a_key_of_its_own_there_is_no_door(own):
    provider = own
    del provider.environment["GPUAAS_DEMO_PAYMENTS_CONTROL_KEY"]
    provider.start()
    for key in ("Bearer", "Bearer x"):
        answer = httpx.post(f"{provider.url}/control", json={"do": "status"}, headers={"authorization": key})
        assert answer.status_code == 404
    assert provider.stop() == 0


@pytest.mark.parametrize(
    "order",
    [
        *(b"", b"[]", b"{", b"\xff", b'{"do": "explode"}', b'{"do": "slow", "second": 1}'),
        *(b'{"do": "slow", "seconds": 1e9}', b'{"do": "later", "seconds": 0}'),
        *(b'{"do": "pay"}', b'{"do": "pay", "session": "cs_nobody"}'),
    ],
)
def test_an_order_that_makes_no_sense_changes_nothing(provider: DemoProvider, order):
    key = {"authorization": "Bearer control_of_the_demo_provider"}
    answer = httpx.post(f"{provider.url}/control", content=order, headers=key)
    assert answer.status_code in (400, 404)
    assert answer.json()["error"]["message"]
    assert provider.order("status")["in_force"] == []
