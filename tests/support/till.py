"""An organisation that pays in: the API, the webhooks program's application on a real socket, the worker's reactions
run by hand, and a provider of its own that sends notices there."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import msgspec
from stripe import WebhookSignature

from gpuaas.contracts.events.base import EVENT_TYPES
from gpuaas.domains import load_handlers
from gpuaas.domains.outbox import service as outbox
from gpuaas.domains.payments.checkouts import service as checkouts
from gpuaas.domains.payments.checkouts.models import Payment
from gpuaas.domains.payments.reconciling import service as reconciling
from gpuaas.domains.payments.reconciling.models import Report
from gpuaas.domains.payments.site import PaymentSite
from gpuaas.flows.catalogue import FLOWS
from gpuaas.flows.executor import Executor
from gpuaas.infra.embedded.ports import free_port
from gpuaas.infra.events import HANDLERS
from gpuaas.infra.http.probes import Probes
from gpuaas.infra.http.server import listen, make_server, serve
from gpuaas.infra.payments.stripe_provider import StripePayments
from gpuaas.infra.postgres.database import Database
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from gpuaas.processes.webhooks.app import PATH, WebhooksApp
from tests.support.payment_provider import SECRET_KEY, WEBHOOK_SECRET, DemoProvider
from tests.support.people import found
from tests.support.purse import EVERYTHING, Purse, purse_of

OLD_SECRET = "whsec_that_is_being_rotated_out"
MICROS = 1_000_000


@dataclass
class Till:
    purse: Purse
    provider: DemoProvider
    stripe: StripePayments
    url: str
    """Of the webhooks program."""
    client: httpx.AsyncClient
    handled: set[UUID] = field(default_factory=set)

    @property
    def db(self) -> Database:
        return self.purse.db

    async def order(self, do: str, **said: Any) -> dict[str, Any]:
        return await asyncio.to_thread(self.provider.order, do, **said)

    async def ask(self, units: float = 50, *, key: str = "", **more: Any) -> httpx.Response:
        path = f"/orgs/{self.purse.org_id}/payments"
        body = {"amount_micros": int(units * MICROS), **more}
        return await self.purse.city.ask(self.purse.owner, "POST", path, body, key=key)

    async def top_up(self, units: float = 50, **more: Any) -> dict[str, Any]:
        made: dict[str, Any] = found(await self.ask(units, **more), 201)
        return made

    async def pay(self, payment: dict[str, Any], how: str = "card", **more: Any) -> dict[str, Any]:
        done: dict[str, Any] = (await self.order("pay", session=payment["session_id"], how=how, **more))["done"]
        return done

    async def paid(self, units: float = 50) -> dict[str, Any]:
        """A payment that is in the balance."""
        payment = await self.top_up(units)
        await self.pay(payment)
        await self.until(payment["id"], "succeeded")
        return await self.show(payment["id"])

    async def dispute(self, payment: dict[str, Any]) -> str:
        """The payer asks his bank for it back; the provider's name for that."""
        library = await asyncio.to_thread(self.provider.library)
        intent_id = (await self.read(payment["id"])).intent_id
        assert intent_id is not None
        intent = await asyncio.to_thread(library.v1.payment_intents.retrieve, intent_id)
        opened = await self.order("dispute", charge=intent["latest_charge"])
        await self.until(payment["id"], "disputed")
        return str(opened["done"]["id"])

    async def show(self, payment_id: str) -> dict[str, Any]:
        shown: dict[str, Any] = await self.purse.city.get(
            self.purse.owner, f"/orgs/{self.purse.org_id}/payments/{payment_id}"
        )
        return shown

    async def read(self, payment_id: str | UUID) -> Payment:
        async with self.purse.reading() as tx:
            return await checkouts.payment_get(tx, UUID(str(payment_id)))

    async def until(self, payment_id: str, *states: str, seconds: float = 20.0) -> None:
        """Until the notices that say so have come and were acted on."""
        end = clock.monotonic() + seconds
        while True:
            await self.react()
            state = (await self.read(payment_id)).state
            if state in states:
                return
            assert clock.monotonic() < end, f"it is {state}"
            await asyncio.sleep(0.02)

    async def told(self) -> None:
        """Until the provider has nothing left to tell, and all of it was acted on."""
        for _ in range(1000):
            if (await self.order("status"))["untold"] == 0:
                break
            await asyncio.sleep(0.02)
        await self.react()

    async def react(self) -> None:
        """What the worker's reactions of payments do to each event, until there is none left."""
        while True:
            async with self.db.read(EVERYTHING) as tx:
                rows = await tx.rows(
                    "SELECT id, name, org_id FROM outbox WHERE stream = 'PAYMENTS' AND NOT id = ANY($1) ORDER BY id",
                    list(self.handled),
                )
            if not rows:
                return
            for row in rows:
                self.handled.add(row["id"])
                for reaction in HANDLERS.reactions():
                    if reaction.name.startswith("payments.") and EVENT_TYPES[row["name"]] in reaction.events:
                        await outbox.event_handle(self.db, reaction, row["id"], row["org_id"], self.purse.city.parts)

    async def run_flows(self) -> None:
        """Until no flow has anything to do at once."""
        executor = Executor(self.db, FLOWS, self.purse.city.parts, worker="w1")
        for _ in range(50):
            if not await executor.run_due():
                return
        raise AssertionError("flows do not come to rest")

    async def reconcile(self) -> Report:
        return await reconciling.payments_reconcile(self.db, self.stripe)

    async def events(self, name: str, subject_id: str | UUID) -> list[dict[str, Any]]:
        async with self.purse.reading() as tx:
            rows = await tx.rows(
                "SELECT payload FROM outbox WHERE name = $1 AND subject_id = $2 ORDER BY id",
                name,
                UUID(str(subject_id)),
            )
        return [json.loads(row["payload"]) for row in rows]

    async def rows(self, sql: str, *arguments: Any) -> list[Any]:
        async with self.purse.reading() as tx:
            return list(await tx.rows(sql, *arguments))

    async def broken(self) -> list[str]:
        """What the invariants of payments and of the ledger find."""
        views = ("invariant_16_one_effect", "invariant_14_payments_move", "invariant_01_balance_is_sum")
        return [f"{view}: {dict(row)}" for view in views for row in await self.rows(f"SELECT * FROM {view}")]

    async def send(
        self, body: bytes, *, secret: str = WEBHOOK_SECRET, age_seconds: int = 0, **headers: str
    ) -> httpx.Response:
        """A notice, signed as the provider signs it."""
        signed = WebhookSignature.generate_signature_header(
            body.decode("utf-8", "surrogateescape") if body.isascii() else body.decode("latin-1"),
            secret,
            clock.epoch_s() - age_seconds,
        )
        given = {"content-type": "application/json", "stripe-signature": signed}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.post(self.url + PATH, content=body, headers={k: v for k, v in given.items() if v})


def notice(kind: str, about: dict[str, Any], event_id: str = "") -> bytes:
    event = {"id": event_id or f"evt_{new_id().hex}", "object": "event", "type": kind, "data": {"object": about}}
    return msgspec.json.encode(event)


def session_of(payment: Payment, **changed: Any) -> dict[str, Any]:
    """As the provider tells of a paid page."""
    return {
        "id": payment.session_id or f"cs_{payment.id.hex}",
        "object": "checkout.session",
        "client_reference_id": str(payment.id),
        "metadata": {"payment_id": str(payment.id)},
        "amount_total": payment.amount_micros // 10_000,
        "currency": payment.currency.lower(),
        "payment_status": "paid",
        "status": "complete",
        "payment_intent": payment.intent_id or f"pi_{payment.id.hex}",
        "url": None,
        "created": clock.epoch_s(),
        **changed,
    }


@asynccontextmanager
async def webhooks_program(db: Database, stripe: StripePayments) -> AsyncIterator[str]:
    """Its application, as it is served."""
    port, stop = free_port(), asyncio.Event()
    app = WebhooksApp(db, stripe, (WEBHOOK_SECRET, OLD_SECRET), Probes("webhooks", required={}))
    listener = listen("127.0.0.1", port)
    running = asyncio.create_task(serve(make_server(app, host="127.0.0.1", port=port), listener, stop))
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        stop.set()
        await running


@asynccontextmanager
async def till_of(db: Database, folder: Path, *, timeout_seconds: float = 2.0) -> AsyncIterator[Till]:
    load_handlers()
    async with purse_of(db) as purse, httpx.AsyncClient(timeout=30) as client:
        reading = StripePayments("sk_reads_only")
        async with webhooks_program(db, reading) as url:
            provider = await asyncio.to_thread(DemoProvider(folder, url + PATH).start)
            stripe = StripePayments(SECRET_KEY, provider.url, timeout_seconds=timeout_seconds)
            purse.city.parts.add(stripe)
            purse.city.parts.add(PaymentSite("http://127.0.0.1:9"))
            try:
                yield Till(purse, provider, stripe, url, client)
            finally:
                await asyncio.to_thread(provider.kill)
                await stripe.close()
                await reading.close()
