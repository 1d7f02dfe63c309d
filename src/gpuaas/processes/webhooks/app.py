"""The door for the payment provider: POST /stripe/webhook, and the probes.

Always holds: a body is read up to a limit, verified as it came before anybody reads what is in it, and answered with
2xx only once it is stored. What was heard before is answered the same way. Every refusal has the catalogue's shape; the
provider sends again what was not taken."""

from collections.abc import Sequence

import asyncpg
import msgspec
from prometheus_client import Counter

from gpuaas.contracts.error_codes import Code
from gpuaas.domains.payments.webhooks import service
from gpuaas.infra.http.app import Send, fault_answer
from gpuaas.infra.http.pipeline import JSON, Answer
from gpuaas.infra.http.probes import PATHS, Probes
from gpuaas.infra.http.request import Message, Receive, Request, decode_json
from gpuaas.infra.payments.signature import verify
from gpuaas.infra.postgres.database import AWAY, Database, away
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit import log, trace
from gpuaas.kit.errors import Broken, Fault, Invalid, Missing, NotAllowed, Unavailable
from gpuaas.ports.payments import NoticeUnreadable, PaymentProvider

PATH = "/stripe/webhook"
MAX_BODY = 256 * 1024
MAX_IN_FLIGHT = 200
TAKEN = Counter("gpuaas_webhooks", "Notices of the payment provider by what became of them.", ["outcome"])
_ANYTHING = msgspec.json.Decoder()


class WebhooksApp:
    def __init__(self, db: Database, provider: PaymentProvider, secrets: Sequence[str], probes: Probes) -> None:
        self._db = db
        self._provider = provider
        self._secrets = tuple(secrets)
        self._probes = probes
        self._in_flight = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive, ())
        log.correlation_id.set(request.correlation_id)
        trace.enter()
        self._in_flight += 1
        try:
            if self._in_flight > MAX_IN_FLIGHT:
                raise Unavailable(Code.OVERLOADED, "Too many requests are waiting. Try again.", retry_after=1)
            answer = await self._answer(request)
        except Fault as fault:
            TAKEN.labels(fault.code).inc()
            log.get_logger().warning("a notice is refused", code=fault.code, reason=log.scrub_text(fault.log)[:300])
            answer = fault_answer(fault, request)
        except Exception as error:  # noqa: BLE001 # the last wall: the provider sends it again
            answer = fault_answer(_fault(error), request)
        finally:
            self._in_flight -= 1
        await send({"type": "http.response.start", "status": answer.status, "headers": _headers(request, answer)})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, request: Request) -> Answer:
        if request.path in PATHS and request.method in ("GET", "HEAD"):
            found = await self._probes.answer(request.path)
            return Answer(found.status, found.body, found.content_type.encode())
        if request.path != PATH:
            raise Missing(Code.ROUTE_MISSING, f"There is nothing at this path: notices go to {PATH}.")
        if request.method != "POST":
            raise NotAllowed(Code.METHOD_NOT_ALLOWED, "This path takes POST.")
        if request.ambiguity:
            raise Invalid(Code.REQUEST_MALFORMED, f"The request can be read in two ways: {request.ambiguity}.")
        return await self._take(request)

    async def _take(self, request: Request) -> Answer:
        body = await request.body(MAX_BODY)
        verify(body, request.headers.get(b"stripe-signature", b"").decode("latin-1"), self._secrets)
        request.require_content_type(JSON)
        decode_json(_ANYTHING, body)
        try:
            notice = self._provider.read(body)
        except NoticeUnreadable as error:
            raise Invalid(Code.REQUEST_MALFORMED, "The body is no notice we can read.", log=str(error)) from error
        async with self._db.transaction(Sight(PLATFORM), "system:webhooks") as tx:
            new = await service.webhook_store(tx, notice, body)
        TAKEN.labels("stored" if new else "known").inc()
        return Answer(200, b'{"received":true}')


def _fault(error: Exception) -> Fault:
    if isinstance(error, AWAY):
        return away(error)
    if isinstance(error, asyncpg.QueryCanceledError):
        return Unavailable(Code.OVERLOADED, "The database took too long. Try again.", log=str(error), retry_after=2)
    log.get_logger().error("unexpected", exc_info=error)
    return Broken(Code.INTERNAL, "Something failed on our side.", log=f"{type(error).__name__}: {error}")


def _headers(request: Request, answer: Answer) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", answer.content_type),
        (b"content-length", b"%d" % len(answer.body)),
        (b"x-correlation-id", request.correlation_id.encode()),
        (b"cache-control", b"no-store"),
        *answer.headers,
    ]
