"""The ASGI application: the API with its faults, the pages, the demo's door, the probes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from gpuaas.infra.http.probes import PATHS, Probes
from gpuaas.infra.http.request import Message, Receive, Request
from gpuaas.infra.http.server import CatalogueProtocol
from gpuaas.kit import clock, log
from gpuaas.kit.errors import Fault
from gpuaas.processes.demo_payments.api import Api, ApiAnswer, Asked, Headers
from gpuaas.processes.demo_payments.browsing import Pages
from gpuaas.processes.demo_payments.control import Door
from gpuaas.processes.demo_payments.errors import ProviderError, invalid
from gpuaas.processes.demo_payments.faults import Down, Faults, Lost, Slow

Send = Callable[[Message], Awaitable[None]]
MAX_BODY = 128 * 1024
MAX_IN_FLIGHT = 500
_JSON = ((b"content-type", b"application/json"),)
_ALWAYS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class CuttableProtocol(CatalogueProtocol):
    """Lets the application cut a connection: an answer that is lost on its way."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["cut"] = self.transport.abort  # type: ignore[typeddict-unknown-key] # our own key


class App:
    def __init__(
        self, api: Api, pages: Pages, door: Door, faults: Faults, probes: Probes, wake: Callable[[], None]
    ) -> None:
        self._api = api
        self._pages = pages
        self._door = door
        self._faults = faults
        self._probes = probes
        self._wake = wake
        self._in_flight = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started = clock.monotonic()
        request = Request(scope, receive, ())
        self._in_flight += 1
        try:
            status, body, headers = await self._answer(request, scope)
        except Fault as fault:
            status, body, headers = _json(ApiAnswer(fault.status, invalid(fault.message).body()))
        except Exception as error:  # noqa: BLE001 # the last wall: a slip of ours is answered as the provider's
            log.get_logger().error("unexpected", exc_info=error)
            said = ProviderError(500, "api_error", "Something failed on our side.")
            status, body, headers = _json(ApiAnswer(500, said.body()))
        finally:
            self._in_flight -= 1
        if status:
            length = (b"content-length", b"%d" % len(body))
            await send({"type": "http.response.start", "status": status, "headers": [*headers, *_ALWAYS, length]})
            await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else body})
        took = round((clock.monotonic() - started) * 1000, 1)
        log.get_logger().debug("answered", method=request.method, status=status, milliseconds=took)

    async def _answer(self, request: Request, scope: Message) -> tuple[int, bytes, Headers]:
        if request.path in PATHS:
            found = await self._probes.answer(request.path)
            return found.status, found.body, ((b"content-type", found.content_type.encode()),)
        if self._in_flight > MAX_IN_FLIGHT:
            return _json(ApiAnswer(429, ProviderError(429, "rate_limit_error", "Too many requests.").body()))
        if request.ambiguity:
            said = invalid(f"The request can be read in two ways: {request.ambiguity}.")
            return _json(ApiAnswer(400, said.body()))
        body = await request.body(MAX_BODY)
        asked = Asked(request.method, request.path, request.query_string, request.headers, body)
        if request.path == "/control":
            return _json(await self._door.answer(asked))
        if request.path.startswith("/v1/"):
            return await self._programs(asked, scope["cut"])
        page, changed = self._pages.answer(asked)
        if changed:
            self._wake()
        return page.status, page.body, page.headers

    async def _programs(self, asked: Asked, cut: Callable[[], None]) -> tuple[int, bytes, Headers]:
        """Status 0: there is no answer."""
        fault = self._faults.strike(asked.method, asked.path)
        if isinstance(fault, Down):
            if fault.status:
                said = ProviderError(fault.status, "api_error", "The demo provider is down, as ordered.")
                return _json(ApiAnswer(fault.status, said.body()))
            cut()
            return 0, b"", ()
        if isinstance(fault, Slow):
            await asyncio.sleep(fault.seconds)
        answer = self._api.answer(asked)
        if isinstance(fault, Lost):
            await asyncio.sleep(fault.seconds)
            cut()
            return 0, b"", ()
        return _json(answer)


def _json(answer: ApiAnswer) -> tuple[int, bytes, Headers]:
    body: Any = msgspec.json.format(msgspec.json.encode(answer.body), indent=2)
    return answer.status, body + b"\n", (*_JSON, *answer.headers)
