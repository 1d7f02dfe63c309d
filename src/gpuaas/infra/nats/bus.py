"""The connection to NATS.

Always holds: a broken connection is replaced by a new one without a restart, and nobody waits for a dead one; what was
in flight on it counts as not sent. The library's own reconnecting is off: it would send old bytes to a new server."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any

import msgspec
import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError
from prometheus_client import Gauge

from gpuaas.kit import log

CONNECT_SECONDS = 3
REQUEST_SECONDS = 5.0
FIRST_WAIT_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 3.0
STOP_SECONDS = 1.0
PING_SECONDS = 5
NO_RESPONDERS = "503"
CONNECTED = Gauge("gpuaas_nats_connected", "Whether this program is connected to NATS.")
NOT_FOUND = 404


class BusAway(Exception):
    """NATS does not answer now. Nothing is lost: what is not acknowledged is sent again."""


class BusRefused(Exception):
    """JetStream answered no."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(f"{description} ({code})")
        self.code = code


class Bus:
    """The program's one connection: `start`, then `client` whenever it is needed."""

    def __init__(self, url: str, program: str) -> None:
        self._url = url
        self._program = program
        self._client: Client | None = None
        self._up = asyncio.Event()
        self._down = asyncio.Event()
        self._down.set()
        self._task: asyncio.Task[None] | None = None
        self._lost_hooks: list[Callable[[], None]] = []
        self.trouble = "not connected yet"
        self.connections = 0
        """Grows with each new connection, so that whoever subscribes knows when to do it again."""

    def start(self) -> None:
        """Connect in the background: the program starts whether or not NATS is there."""
        self._task = asyncio.create_task(self._stay_connected(), name="nats")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=STOP_SECONDS)
        await self._drop()

    @property
    def connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    def client(self) -> Client:
        if self._client is None or not self._client.is_connected:
            raise BusAway(self.trouble)
        return self._client

    async def check(self) -> str:
        """For a probe."""
        return "" if self.connected else f"NATS is away: {self.trouble}"

    async def wait_connected(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._up.wait()
        return self.connected

    def when_lost(self, hook: Callable[[], None]) -> None:
        """Call this each time the connection is gone."""
        self._lost_hooks.append(hook)

    async def ask(self, subject: str, body: object = None) -> dict[str, Any]:
        """A question to JetStream's API."""
        payload = b"" if body is None else msgspec.json.encode(body)
        try:
            answer = await self.client().request(f"$JS.API.{subject}", payload, timeout=REQUEST_SECONDS)
        except (NatsError, TimeoutError, OSError) as error:
            raise BusAway(f"{type(error).__name__}: {error}") from error
        found: dict[str, Any] = msgspec.json.decode(answer.data)
        if "error" in found:
            raise BusRefused(int(found["error"].get("code", 0)), str(found["error"].get("description", "")))
        return found

    async def _stay_connected(self) -> None:
        wait = FIRST_WAIT_SECONDS
        while True:
            try:
                await self._connect()
            except (NatsError, OSError, TimeoutError) as error:
                self.trouble = f"{type(error).__name__}: {error}"
                await asyncio.sleep(wait * random.uniform(0.5, 1))  # noqa: S311 - spreads retries, hides nothing
                wait = min(wait * 2, LONGEST_WAIT_SECONDS)
                continue
            wait = FIRST_WAIT_SECONDS
            await self._down.wait()
            CONNECTED.set(0)
            log.get_logger().warning("nats is away", reason=self.trouble)
            await self._drop()
            for hook in self._lost_hooks:
                hook()

    async def _connect(self) -> None:
        self._down.clear()
        self._client = await nats.connect(
            self._url,
            name=f"gpuaas-{self._program}",
            allow_reconnect=False,
            connect_timeout=CONNECT_SECONDS,
            ping_interval=PING_SECONDS,
            max_outstanding_pings=2,
            error_cb=self._failed,
            closed_cb=self._closed,
            disconnected_cb=self._closed,
        )
        self.connections += 1
        self.trouble = ""
        self._up.set()
        CONNECTED.set(1)
        log.get_logger().info("nats is connected")

    async def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(NatsError, OSError, TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await client.close()

    async def _failed(self, error: Exception) -> None:
        self.trouble = f"{type(error).__name__}: {error}"

    async def _closed(self) -> None:
        self.trouble = self.trouble or "the connection was closed"
        self._up.clear()
        self._down.set()
