"""The ASGI application: operations, probes and pages behind one door. Every answer carries its correlation id; every
error has the catalogue's shape; every request is counted, timed and logged once."""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import TypeVar

import asyncpg
import msgspec
from prometheus_client import REGISTRY, Counter

from gpuaas.contracts.actor import ANONYMOUS, Actor
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import ErrorBody, ErrorResponse
from gpuaas.infra.http.context import Scope
from gpuaas.infra.http.meter import RequestMeter
from gpuaas.infra.http.openapi import error_codes
from gpuaas.infra.http.operation import Registry, Stream, Wire
from gpuaas.infra.http.pipeline import JSON, Answer, Edge, Pipeline
from gpuaas.infra.http.protocol_faults import protocol_answer
from gpuaas.infra.http.request import Message, ProxyNetworks, Receive, Request, new_correlation_id
from gpuaas.infra.http.router import Router
from gpuaas.infra.postgres.database import AWAY, away
from gpuaas.kit import clock, log, trace
from gpuaas.kit.errors import Broken, Fault, Invalid, Missing, NotAllowed, Unavailable

T = TypeVar("T")
Send = Callable[[Message], Awaitable[None]]
MAX_IN_FLIGHT = 500
MAX_AGENTS_IN_FLIGHT = 10_000  # nearly all of them wait for a task, which costs nothing
METER = RequestMeter()
REGISTRY.register(METER)
UNDECLARED = Counter("gpuaas_http_undeclared_errors", "Errors an operation did not declare.", ["operation", "code"])
BASE_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
PAGE_METHODS = ("GET", "HEAD")
_ENCODER = msgspec.json.Encoder()


Page = Callable[[Request], Awaitable[Answer]]
"""Something served as it is: a probe, the docs, the landing page."""


class App:
    def __init__(
        self,
        registry: Registry,
        edge: Edge,
        *,
        pages: dict[str, Page],
        proxies: ProxyNetworks = (),
        agents: bool = False,
    ) -> None:
        """`agents`: the agents' listener, with their operations and no others."""
        self._router = Router()
        self._pages = {path: _Page(f"page {path}", page) for path, page in pages.items()}
        self._proxies = proxies
        self.edge = edge
        self._in_flight, self._most = 0, MAX_AGENTS_IN_FLIGHT if agents else MAX_IN_FLIGHT
        self._ready = False
        """Once there, what decides stays: it is not asked again."""
        self._declared: dict[str, frozenset[str]] = {}
        for operation in registry.all():
            if (operation.scope is Scope.AGENT) is not agents:
                continue
            self._router.add(operation.method, operation.full_path, Pipeline(operation, edge))
            self._declared[operation.id] = frozenset(error_codes(operation))
        edge.parts.add(self)

    @property
    def in_flight(self) -> int:
        return self._in_flight

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await _deny_upgrade(send)
        if scope["type"] != "http":
            return
        started = clock.monotonic()
        request = Request(scope, receive, self._proxies)
        log.correlation_id.set(request.correlation_id)
        traceparent = request.headers.get(b"traceparent")
        trace.enter(traceparent.decode("latin-1") if traceparent else "")
        self._in_flight += 1
        operation, actor, wire = "none", ANONYMOUS, Wire.JSON
        answer: Answer | Stream | int
        try:
            if self._in_flight > self._most:
                raise Unavailable(Code.OVERLOADED, "Too many requests are waiting. Try again.", retry_after=1)
            target, values = self._target(request)
            operation, wire = target.name, target.wire
            running = target.run(request, values)
            answer, actor = await (_traced(operation, running) if trace.recording() else running)
            if isinstance(answer, Stream):
                answer = await _send_stream(send, receive, request, answer)
        except Fault as fault:
            answer = fault_answer(fault, request, wire)
            self._note_undeclared(operation, fault)
        except Exception as error:  # noqa: BLE001 # the last wall: whatever it is, it leaves in the catalogue's shape
            answer = fault_answer(away(error) if isinstance(error, AWAY) else _broken(error), request, wire)
        finally:
            self._in_flight -= 1
        if isinstance(answer, Answer):
            await send({"type": "http.response.start", "status": answer.status, "headers": _headers(request, answer)})
            await send({"type": "http.response.body", "body": answer.body})
            answer = answer.status
        seconds = clock.monotonic() - started
        METER.count(operation, answer, seconds)
        log.access(
            log.AccessLine(
                operation,
                answer,
                int(seconds * 100_000) / 100,
                request.method,
                request.correlation_id,
                request.client_ip,
                actor.subject,
            )
        )

    def _target(self, request: Request) -> tuple["Pipeline | _Page", list[str]]:
        """What answers a request, and the values in its path."""
        if request.ambiguity:
            raise Invalid(Code.REQUEST_MALFORMED, f"The request can be read in two ways: {request.ambiguity}.")
        page = self._pages.get(request.path)
        if page is not None:
            if request.method not in PAGE_METHODS:
                raise _not_allowed(PAGE_METHODS)
            return page, []
        found = self._router.find(request.path)
        if found is None:
            raise Missing(Code.ROUTE_MISSING, "There is nothing at this path. See /api/docs.")
        by_method, values = found
        pipeline: Pipeline | None = by_method.get(request.method)
        if pipeline is None:
            raise _not_allowed(by_method)
        self._ready = self._ready or self.edge.ready()
        if not self._ready:
            raise Unavailable(Code.DEPENDENCY_UNAVAILABLE, "The API is just starting. Try again.", retry_after=1)
        return pipeline, values

    def _note_undeclared(self, operation: str, fault: Fault) -> None:
        """The contract lists what an operation answers with; anything else is a mistake of ours, counted and said."""
        if operation in self._declared and fault.code not in self._declared[operation]:
            UNDECLARED.labels(operation, fault.code).inc()
            log.get_logger().error("undeclared error", operation=operation, code=fault.code)


class _Page:
    """Runs as a pipeline does, for anybody."""

    wire = Wire.JSON

    def __init__(self, name: str, page: Page) -> None:
        self.name = name
        self._page = page

    async def run(self, request: Request, values: list[str]) -> tuple[Answer, Actor]:
        return await self._page(request), ANONYMOUS


async def _traced(operation: str, running: Awaitable[T]) -> T:
    with trace.span(operation):
        return await running


def fault_answer(fault: Fault, request: Request, wire: Wire = Wire.JSON) -> Answer:
    """A fault as it leaves. The issuer's protocol endpoints speak RFC 6749's shape; all else has the catalogue's."""
    if fault.status >= 500:
        log.get_logger().error("request failed", code=fault.code, reason=fault.log or fault.message, path=request.path)
    headers: list[tuple[bytes, bytes]] = []
    if fault.retry_after is not None:
        headers.append((b"retry-after", str(max(1, math.ceil(fault.retry_after))).encode()))
    if fault.status == HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", b'Bearer realm="gpuaas"'))
    if hasattr(fault, "allow"):
        headers.append((b"allow", fault.allow.encode()))
    if wire is not Wire.JSON and wire is not Wire.AGENT:
        return protocol_answer(fault, wire, request.correlation_id, tuple(headers))
    body = ErrorBody(
        code=fault.code, message=fault.message, correlation_id=request.correlation_id, details=list(fault.details)
    )
    return Answer(fault.status, _ENCODER.encode(ErrorResponse(error=body)), headers=tuple(headers))


def _not_allowed(methods: Iterable[str]) -> NotAllowed:
    taken = ", ".join(sorted(methods))
    fault = NotAllowed(Code.METHOD_NOT_ALLOWED, f"This path takes {taken}.")
    fault.allow = taken  # type: ignore[attr-defined] # read by fault_answer
    return fault


def _broken(error: Exception) -> Fault:
    if isinstance(error, asyncpg.QueryCanceledError):
        return Unavailable(Code.OVERLOADED, "The database took too long. Try again.", log=str(error), retry_after=2)
    log.get_logger().error("unexpected", exc_info=error)
    return Broken(Code.INTERNAL, "Something failed on our side.", log=f"{type(error).__name__}: {error}")


async def _deny_upgrade(send: Send) -> None:
    """Nobody speaks WebSocket here yet; that, too, is said in the catalogue's shape."""
    correlation = new_correlation_id()
    said = ErrorBody(
        code=Code.ROUTE_MISSING, message="There is no WebSocket at this path.", correlation_id=correlation, details=[]
    )
    body = _ENCODER.encode(ErrorResponse(error=said))
    headers = [(b"content-type", JSON), (b"x-correlation-id", correlation.encode()), *BASE_HEADERS]
    await send({"type": "websocket.http.response.start", "status": 404, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


def _headers(request: Request, answer: Answer) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", answer.content_type),
        (b"content-length", b"%d" % len(answer.body)),
        (b"x-correlation-id", request.correlation_id.encode()),
        *BASE_HEADERS,
        *answer.headers,
    ]


async def _send_stream(send: Send, receive: Receive, request: Request, stream: Stream) -> int:
    """What fails before the first chunk is answered like any failure. Later the answer has begun and cannot become
    another: it stays without its end, so that the server cuts the connection and the client knows it has not all.
    Whoever has gone away is not worked for any longer."""
    first = await anext(stream.chunks, b"")
    await _begin_stream(send, request, stream)
    gone = asyncio.create_task(_gone(receive))
    try:
        await send({"type": "http.response.body", "body": first, "more_body": True})
        while (chunk := await _unless(gone, anext(stream.chunks, None))) is not None:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except Exception as error:  # noqa: BLE001 # whatever it is, nothing can be answered any more
        log.get_logger().error("stream broke off", path=request.path, reason=f"{type(error).__name__}: {error}")
        return HTTPStatus.INTERNAL_SERVER_ERROR
    finally:
        gone.cancel()
        if isinstance(stream.chunks, AsyncGenerator):
            await stream.chunks.aclose()
    await send({"type": "http.response.body", "body": b""})
    return HTTPStatus.OK


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _unless(gone: "asyncio.Task[None]", chunk: Awaitable[bytes | None]) -> bytes | None:
    """The next chunk; None when there is none, or nobody to send it to."""
    waiting = asyncio.ensure_future(chunk)
    await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
    if waiting.done():
        return waiting.result()
    waiting.cancel()
    await asyncio.wait({waiting})
    return None


async def _begin_stream(send: Send, request: Request, stream: Stream) -> None:
    """A stream without a file's name is read as it comes, not kept."""
    headers = [
        (b"content-type", stream.content_type.encode()),
        (b"x-correlation-id", request.correlation_id.encode()),
        *BASE_HEADERS,
    ]
    if stream.filename:
        headers.append((b"content-disposition", f'attachment; filename="{stream.filename}"'.encode()))
    await send({"type": "http.response.start", "status": 200, "headers": headers})


__all__ = ["JSON", "App", "Page", "fault_answer"]
