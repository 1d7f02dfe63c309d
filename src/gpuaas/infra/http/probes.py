"""Health, readiness and metrics: the same answers in every program, from the API's own listener or a small one.

Always holds: /healthz answers as long as the program turns; /readyz says what is not ready, in words and without
secrets; asking often costs the things asked about nothing, because an answer is kept for a second."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from gpuaas.kit import clock, log

Check = Callable[[], Awaitable[str]]
CHECK_SECONDS = 2.0
KEPT_SECONDS = 1.0
MAX_REASON = 300
MAX_REQUEST_BYTES = 8 * 1024
REQUEST_SECONDS = 5.0
MAX_CONNECTIONS = 64
PATHS = ("/healthz", "/readyz", "/metrics")
_JSON = "application/json"
_PHRASES = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class ProbeAnswer(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    content_type: str = _JSON


class CheckResult(msgspec.Struct, frozen=True):
    name: str
    ok: bool
    required: bool
    reason: str


class Readiness(msgspec.Struct, frozen=True):
    program: str
    ready: bool
    degraded: bool
    """Ready, but something it would like to have is away."""
    checks: list[CheckResult]


class Probes:
    """What a program says about itself. A check answers '' or why not; without a `wanted` one it is ready still."""

    def __init__(
        self, program: str, *, required: Mapping[str, Check], wanted: Mapping[str, Check] | None = None
    ) -> None:
        self._program = program
        self._required = dict(required)
        self._wanted = dict(wanted or {})
        self._kept: tuple[float, Readiness] | None = None
        self._asking = asyncio.Lock()
        self._stopping = False

    def stop(self) -> None:
        """Not ready any more: whoever sends work should send it elsewhere."""
        self._stopping, self._kept = True, None

    async def readiness(self) -> Readiness:
        async with self._asking:
            if self._kept is None or clock.monotonic() - self._kept[0] > KEPT_SECONDS:
                self._kept = (clock.monotonic(), await self._ask())
            return self._kept[1]

    async def answer(self, path: str) -> ProbeAnswer:
        if path == "/healthz":
            return ProbeAnswer(200, msgspec.json.encode({"program": self._program, "alive": True}))
        if path == "/readyz":
            found = await self.readiness()
            return ProbeAnswer(200 if found.ready else 503, msgspec.json.encode(found))
        if path == "/metrics":
            return ProbeAnswer(200, generate_latest(), CONTENT_TYPE_LATEST)
        return ProbeAnswer(404, msgspec.json.encode({"paths": PATHS}))

    async def _ask(self) -> Readiness:
        checks = [
            *(_ask_one(name, check, required=True) for name, check in self._required.items()),
            *(_ask_one(name, check, required=False) for name, check in self._wanted.items()),
        ]
        results = list(await asyncio.gather(*checks))
        if self._stopping:
            results.append(CheckResult("running", ok=False, required=True, reason="the program is stopping"))
        return Readiness(
            self._program,
            ready=all(result.ok for result in results if result.required),
            degraded=any(not result.ok for result in results),
            checks=results,
        )


async def _ask_one(name: str, check: Check, *, required: bool) -> CheckResult:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            reason = await check()
    except TimeoutError:
        reason = f"no answer within {CHECK_SECONDS:g} s"
    except Exception as error:  # noqa: BLE001 - a check that fails is the answer to the probe
        reason = f"{type(error).__name__}: {error}"
    return CheckResult(name, ok=not reason, required=required, reason=log.scrub_text(reason)[:MAX_REASON])


def pages(probes: Probes) -> dict[str, Any]:
    """The probes as pages of the API."""
    from gpuaas.infra.http.pipeline import Answer

    def page(path: str) -> Any:
        async def answer(_: Any) -> Answer:
            found = await probes.answer(path)
            return Answer(found.status, found.body, found.content_type.encode())

        return answer

    return {path: page(path) for path in PATHS}


class ProbeServer:
    """A listener for programs that have no other: GET, one answer, closed."""

    def __init__(self, probes: Probes, host: str, port: int) -> None:
        self._probes = probes
        self._address = (host, port)
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self) -> int:
        """The port it listens on; OSError when it is taken."""
        host, port = self._address
        self._server = await asyncio.start_server(self._serve, host, port, limit=MAX_REQUEST_BYTES)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= MAX_CONNECTIONS:
                async with asyncio.timeout(REQUEST_SECONDS):
                    answer = await self._answer((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0])
                    writer.write(_http(answer))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, request_line: bytes) -> ProbeAnswer:
        method, _, rest = request_line.decode("latin-1").partition(" ")
        if method != "GET":
            return ProbeAnswer(405, msgspec.json.encode({"methods": ["GET"]}))
        return await self._probes.answer(rest.split(" ", 1)[0].split("?", 1)[0])


def _http(answer: ProbeAnswer) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status} {_PHRASES[answer.status]}\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + answer.body
