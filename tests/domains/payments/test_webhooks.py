"""Notices of the provider: whose they are, what is in them, and what becomes of each, in any order and any number."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from stripe import WebhookSignature

from gpuaas.domains.outbox import service as outbox
from gpuaas.infra.events import HANDLERS
from gpuaas.kit import clock
from gpuaas.kit.ids import OrgId, new_id
from gpuaas.processes.webhooks.app import MAX_BODY, PATH
from tests.support.payment_provider import WEBHOOK_SECRET
from tests.support.people import refusal
from tests.support.purse import Purse
from tests.support.till import MICROS, OLD_SECRET, Till, notice, session_of

DISTINCT = 5_000
SEED = 20_260_116


def something(event_id: str = "") -> bytes:
    return notice("customer.updated", {"id": "cus_1", "object": "customer"}, event_id)


async def stored(till: Till) -> int:
    return int((await till.rows("SELECT count(*) AS n FROM webhook_events"))[0]["n"])


async def test_every_secret_of_ours_is_believed_while_one_is_rotated(till: Till):
    for secret in (WEBHOOK_SECRET, OLD_SECRET):
        assert (await till.send(something(), secret=secret)).status_code == 200
    body = something()
    both = [await till.send(body, secret=secret) for secret in (OLD_SECRET, WEBHOOK_SECRET)]
    assert [one.status_code for one in both] == [200, 200]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"secret": "whsec_of_somebody_else"}, "another secret"),
        ({"stripe_signature": ""}, "no signature"),
        ({"stripe_signature": "t=1,v1=abc"}, "an old and wrong one"),
        ({"stripe_signature": "v1=abc"}, "no instant"),
        ({"stripe_signature": "t=abc,v1=abc"}, "no number"),
        ({"stripe_signature": "t=" + "9" * 3000}, "a header without end"),
        ({"age_seconds": 301}, "too late"),
        ({"age_seconds": 3 * 24 * 3600}, "three days late"),
        ({"age_seconds": -3600}, "from the future"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_the_provider_did_not_sign_just_now_is_refused_and_not_stored(till: Till, changes: Any, why: str):
    before = await stored(till)
    assert refusal(await till.send(something(), **changes)) == (400, "webhook_signature_refused")
    assert await stored(till) == before


async def test_a_body_that_was_changed_on_the_way_is_refused(till: Till):
    taken = await till.send(something())
    request = taken.request
    changed = request.content.replace(b"cus_1", b"cus_2")
    headers = {"content-type": "application/json", "stripe-signature": request.headers["stripe-signature"]}
    answer = await till.client.post(till.url + PATH, content=changed, headers=headers)
    assert refusal(answer) == (400, "webhook_signature_refused")


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (b"x" * (MAX_BODY + 1), {}, (413, "body_too_large")),
        (b"not JSON", {}, (400, "request_malformed")),
        (b"", {}, (400, "request_malformed")),
        (b"[]", {}, (400, "request_malformed")),
        (b"{}", {}, (400, "request_malformed")),
        (b'{"id":"evt_1","id":"evt_2","type":"a","data":{"object":{"id":"x"}}}', {}, (422, "request_invalid")),
        (b'{"id":"evt_1","type":"a","data":{"object":{"id":"x","id":"y"}}}', {}, (422, "request_invalid")),
        (b'{"id":"evt_\\u0000","type":"a","data":{"object":{"id":"x"}}}', {}, (422, "request_invalid")),
        (b'{"id":1,"type":"a","data":{"object":{}}}', {}, (400, "request_malformed")),
        (b'{"id":"' + b"e" * 300 + b'","type":"a","data":{"object":{}}}', {}, (400, "request_malformed")),
        (b'{"id":"evt_1","type":"refund.updated","data":{"object":{"id":"re_1"}}}', {}, (400, "request_malformed")),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, {}, (400, "request_malformed")),
        (b"\xff\xfe{}", {}, (400, "webhook_signature_refused")),
        (b"{}", {"content_type": "text/plain"}, (415, "content_type_unsupported")),
        (b"{}", {"content_type": ""}, (415, "content_type_unsupported")),
        (b"{}", {"content_encoding": "gzip"}, (415, "content_encoding_unsupported")),
    ],
    ids=lambda value: str(value[:40]) if isinstance(value, bytes) else "",
)
async def test_a_bad_body_gets_a_clear_error_and_is_not_stored(till: Till, body: bytes, headers: Any, expected: Any):
    before = await stored(till)
    assert refusal(await till.send(body, **headers)) == expected
    assert await stored(till) == before


async def test_other_paths_and_methods_are_said_to_be_wrong(till: Till):
    assert refusal(await till.client.get(till.url + PATH)) == (405, "method_not_allowed")
    assert refusal(await till.client.post(till.url + "/", content=b"{}")) == (404, "route_missing")
    ready = await till.client.get(till.url + "/readyz")
    assert (ready.status_code, ready.json()["program"]) == (200, "webhooks")


async def test_a_notice_is_stored_word_for_word_and_acted_on_once(till: Till):
    payment = await till.read((await till.top_up(50))["id"])
    body = notice("checkout.session.completed", session_of(payment))
    before = (await till.purse.balance()).balance_micros
    for _ in range(3):
        assert (await till.send(body)).status_code == 200
        await till.react()
    [row] = await till.rows("SELECT body, state FROM webhook_events WHERE event_id = $1", json.loads(body)["id"])
    assert (bytes(row["body"]), row["state"]) == (body, "acted")
    assert (await till.purse.balance()).balance_micros == before + 50 * MICROS


async def test_another_notice_of_the_same_thing_does_nothing_more(till: Till):
    payment = await till.read((await till.top_up(50))["id"])
    before = (await till.purse.balance()).balance_micros
    for kind in ("checkout.session.completed", "checkout.session.async_payment_succeeded") * 2:
        await till.send(notice(kind, session_of(payment)))
    await till.react()
    assert (await till.purse.balance()).balance_micros == before + 50 * MICROS
    assert len(await till.events("payments.succeeded", payment.id)) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"amount_total": 4999},
        {"amount_total": 500_000},
        {"currency": "eur"},
        {"amount_total": None},
    ],
    ids=str,
)
async def test_another_amount_or_currency_credits_nothing_and_is_told(till: Till, changes: dict[str, Any]):
    payment = await till.read((await till.top_up(50))["id"])
    before = (await till.purse.balance()).balance_micros
    for _ in range(2):
        await till.send(notice("checkout.session.completed", session_of(payment, **changes)))
        await till.react()
    after = await till.read(payment.id)
    assert (after.state, (await till.purse.balance()).balance_micros) == ("failed_reconcile", before)
    assert len(await till.events("payments.mismatched", payment.id)) == 1
    audited = await till.rows("SELECT action FROM audit_log WHERE subject_id = $1", payment.id)
    assert [row["action"] for row in audited].count("payment.mismatch") == 1
    assert await till.broken() == []


@pytest.mark.parametrize(
    "body",
    [
        notice("checkout.session.completed", {"id": "cs_unknown", "payment_status": "paid", "status": "complete"}),
        notice("checkout.session.completed", {"id": "cs_unknown2", "client_reference_id": str(new_id())}),
        notice("checkout.session.completed", {"id": "cs_unknown3", "client_reference_id": "'; DROP TABLE payments"}),
        notice("charge.refunded", {"id": "ch_1", "amount_refunded": 5}),
        notice("something.new", {"id": "x", "object": "y"}),
        notice(
            "charge.dispute.created", {"id": "dp_1", "amount": 1, "currency": "usd", "status": "warning_needs_response"}
        ),
    ],
    ids=lambda body: json.loads(body)["type"],
)
async def test_what_is_nothing_of_ours_is_stored_and_ignored(till: Till, body: bytes):
    assert (await till.send(body)).status_code == 200
    await till.react()
    [row] = await till.rows("SELECT state FROM webhook_events WHERE event_id = $1", json.loads(body)["id"])
    assert row["state"] == "ignored"


async def test_a_notice_that_cannot_be_acted_on_fails_loudly_and_stays_to_be_acted_on(till: Till, superuser: Any):
    """So that its reaction is tried again, and a dead letter in the end. Here its words were damaged in the table."""
    payment = await till.read((await till.top_up(50))["id"])
    body = notice("checkout.session.completed", session_of(payment))
    assert (await till.send(body)).status_code == 200
    event_id = json.loads(body)["id"]
    await superuser.execute("UPDATE webhook_events SET body = 'damaged' WHERE event_id = $1", event_id)
    [row] = await till.rows(
        "SELECT o.id FROM outbox o JOIN webhook_events w ON w.id = o.subject_id WHERE w.event_id = $1", event_id
    )
    reaction = HANDLERS.reaction("payments.webhook_act")
    assert reaction is not None
    till.handled.add(row["id"])
    with pytest.raises(Exception, match=r"malformed|invalid|JSON"):
        await outbox.event_handle(till.db, reaction, row["id"], None, till.purse.city.parts)
    [now] = await till.rows("SELECT state FROM webhook_events WHERE event_id = $1", event_id)
    assert now["state"] == "stored"


# the storm -----------------------------------------------------------------------------------------------------------
class Storm:
    """Payments of several organisations, all notices of them, and what the ledger has to say in the end."""

    def __init__(self, purses: list[Purse], chance: random.Random) -> None:
        self.purses = purses
        self.chance = chance
        self.rows: list[tuple[Any, ...]] = []
        self.notices: list[bytes] = []
        self.credit = dict.fromkeys((purse.org_id for purse in purses), 0)
        self.states: dict[UUID, str] = {}

    def payment(self) -> tuple[UUID, OrgId, int, dict[str, Any]]:
        purse, payment_id, cents = self.chance.choice(self.purses), new_id(), self.chance.randint(500, 90_000)
        self.rows.append(
            (payment_id, purse.org_id, cents * 10_000, purse.owner.id, new_id().hex, f"cs_{payment_id.hex}")
        )
        session = {
            "id": f"cs_{payment_id.hex}",
            "client_reference_id": str(payment_id),
            "metadata": {"payment_id": str(payment_id)},
            "amount_total": cents,
            "currency": "usd",
            "payment_intent": f"pi_{payment_id.hex}",
        }
        return payment_id, purse.org_id, cents, session

    def tell(self, kind: str, about: dict[str, Any]) -> None:
        self.notices.append(notice(kind, about))

    def story(self, what: str) -> None:
        payment_id, org_id, cents, session = self.payment()
        paid = session | {"payment_status": "paid", "status": "complete"}
        unpaid = session | {"payment_status": "unpaid", "status": "complete"}
        expired = session | {"payment_status": "unpaid", "status": "expired", "payment_intent": None}
        credit, state = cents, "succeeded"
        if what in ("paid", "refunded", "disputed", "late_expiry"):
            self.tell("checkout.session.completed", paid)
        if what == "late_expiry":
            self.tell("checkout.session.expired", expired)
        elif what == "refunded":
            part = self.chance.choice((cents, cents // 3))
            back = {"id": f"re_{payment_id.hex}", "amount": part, "currency": "usd", "status": "succeeded"}
            back["payment_intent"] = session["payment_intent"]
            self.tell("refund.created", back | {"status": "pending"})
            self.tell("refund.updated", back)
            credit, state = cents - part, "refunded" if part == cents else "partially_refunded"
        elif what == "disputed":
            lost = self.chance.random() < 0.5
            about = {"id": f"dp_{payment_id.hex}", "amount": cents, "currency": "usd"}
            about["payment_intent"] = session["payment_intent"]
            self.tell("charge.dispute.created", about | {"status": "needs_response"})
            self.tell("charge.dispute.closed", about | {"status": "lost" if lost else "won"})
            credit, state = (0, "disputed") if lost else (cents, "succeeded")
        elif what == "bank":
            self.tell("checkout.session.completed", unpaid)
            self.tell("checkout.session.async_payment_succeeded", paid)
        elif what == "bank_fails":
            self.tell("checkout.session.completed", unpaid)
            self.tell("checkout.session.async_payment_failed", unpaid)
            credit, state = 0, "failed"
        elif what == "expired":
            self.tell("checkout.session.expired", expired)
            credit, state = 0, "expired"
        elif what == "mismatched":
            self.tell("checkout.session.completed", paid | {"amount_total": cents + 1})
            credit, state = 0, "failed_reconcile"
        self.credit[org_id] += credit * 10_000
        self.states[payment_id] = state

    def fill(self) -> None:
        """Up to the number, with what is nothing of ours."""
        while len(self.notices) < DISTINCT:
            about = {"id": f"cs_{new_id().hex}", "payment_status": "paid", "status": "complete", "amount_total": 5000}
            self.tell(self.chance.choice(("checkout.session.completed", "customer.updated", "payout.paid")), about)


SHARES = {
    "paid": 1200,
    "refunded": 300,
    "disputed": 150,
    "late_expiry": 200,
    "bank": 150,
    "bank_fails": 150,
    "expired": 150,
    "mismatched": 100,
}
INSERT = (
    "INSERT INTO payments (id, org_id, provider, currency, amount_micros, state, due_at, expires_at, asked_by, "
    "asked_by_id, asked_key, session_id) VALUES ($1, $2, 'stripe', 'USD', $3, 'open', now() + interval '2 hours', "
    "now() + interval '1 hour', 'storm', $4, $5, $6)"
)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_five_thousand_notices_three_times_shuffled_some_forged_some_late_credit_what_the_oracle_says(
    till: Till, superuser: Any
):
    chance = random.Random(SEED)
    purses = [till.purse, *[await till.purse.another() for _ in range(7)]]
    for purse in purses:
        await purse.post(10_000_000 * MICROS)  # so that all that goes back is there
    before = {purse.org_id: (await purse.balance()).balance_micros for purse in purses}
    storm = Storm(purses, chance)
    for what, count in SHARES.items():
        for _ in range(count):
            storm.story(what)
    storm.fill()
    assert len(storm.notices) == DISTINCT
    await superuser.executemany(INSERT, storm.rows)
    known = await stored(till)
    sendings = storm.notices * 3
    chance.shuffle(sendings)
    refused = await deliver(till, sendings, chance)
    assert refused["forged"] == pytest.approx(len(sendings) * 0.05, rel=0.2)
    assert refused["late"] == pytest.approx(len(sendings) * 0.10, rel=0.2)
    assert await stored(till) == known + DISTINCT
    await act(till, chance)
    for purse in purses:
        balance = await purse.balance()
        assert (balance.balance_micros, balance.held_micros) == (before[purse.org_id] + storm.credit[purse.org_id], 0)
    states = {
        row["id"]: row["state"] for row in await till.rows("SELECT id, state FROM payments WHERE asked_by = 'storm'")
    }
    assert states == storm.states
    assert await till.broken() == []


async def deliver(till: Till, sendings: list[bytes], chance: random.Random) -> dict[str, int]:
    """All of them; a forgery besides for one in twenty, and one in ten comes too late first, and then again."""
    refused = {"forged": 0, "late": 0}
    waiting = iter([(body, chance.random()) for body in sendings])

    async def sender() -> None:
        async with wire_to(till.url) as send:
            for body, draw in waiting:
                if draw < 0.05:
                    forged = body.replace(b'"evt_', b'"evt_forged_')
                    assert await send(forged, "whsec_of_a_thief", 0) == 400
                    refused["forged"] += 1
                elif draw < 0.15:
                    assert await send(body, WEBHOOK_SECRET, chance.randint(301, 300_000)) == 400
                    refused["late"] += 1
                while await send(body, WEBHOOK_SECRET, 0) != 200:  # noqa: ASYNC110 # an answer is no event
                    await asyncio.sleep(0.1)  # as the provider does: until it is taken

    await asyncio.gather(*(sender() for _ in range(16)))
    return refused


Send = Callable[[bytes, str, int], Awaitable[int]]


@asynccontextmanager
async def wire_to(url: str) -> AsyncIterator[Send]:
    """A connection on which notices are sent one after the other; the status of each answer."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))

    async def send(body: bytes, secret: str, age_seconds: int) -> int:
        signed = WebhookSignature.generate_signature_header(body.decode(), secret, clock.epoch_s() - age_seconds)
        head = (
            f"POST {PATH} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
            f"stripe-signature: {signed}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        await reader.readexactly(int(answer.split("content-length: ")[1].split("\r\n")[0]))
        return int(answer.split(" ")[1])

    try:
        yield send
    finally:
        writer.close()


async def act(till: Till, chance: random.Random) -> None:
    """The worker's reactions, several at a time and in any order; some events three times, as a bus might."""
    turns = asyncio.Semaphore(8)

    async def handle(row: Any) -> None:
        for reaction in HANDLERS.reactions():
            if reaction.name.startswith("payments.webhook") and row["name"] in reaction.event_names:
                async with turns:
                    await once(till, reaction, row)

    while True:
        rows = await till.rows(
            "SELECT id, name, org_id FROM outbox WHERE stream = 'PAYMENTS' AND NOT id = ANY($1)", list(till.handled)
        )
        if not rows:
            return
        till.handled |= {row["id"] for row in rows}
        deliveries = [row for row in rows for _ in range(3 if chance.random() < 0.2 else 1)]
        chance.shuffle(deliveries)
        await asyncio.gather(*(handle(row) for row in deliveries))


async def once(till: Till, reaction: Any, row: Any) -> None:
    """The worker tries again what the database took back."""
    for _ in range(20):
        try:
            await outbox.event_handle(till.db, reaction, row["id"], row["org_id"], till.purse.city.parts)
            return
        except (asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError, asyncpg.UniqueViolationError):
            await asyncio.sleep(0.05)
    raise AssertionError("a reaction does not get through")
