"""Hints over core NATS: no stream, no memory. While NATS is away, or the buffer is full, they are dropped."""

import asyncio
from collections.abc import Callable

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from gpuaas.infra.nats.bus import Bus, BusAway
from gpuaas.kit import log
from gpuaas.ports.hints import Hints

MAX_WAITING = 10_000
RECONNECT_SECONDS = 5.0
LOOK_SECONDS = 0.5


class NatsHints(Hints):
    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._waiting: asyncio.Queue[str] = asyncio.Queue(MAX_WAITING)
        self._listeners: list[tuple[str, Callable[[str], None]]] = []

    def tell(self, subject: str) -> None:
        if not self._waiting.full():
            self._waiting.put_nowait(subject)

    def listen(self, pattern: str, heard: Callable[[str], None]) -> None:
        self._listeners.append((pattern, heard))

    async def run(self) -> None:
        """Until cancelled: subscribe on every new connection, also for whoever comes later, and send what is told."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send())
            group.create_task(self._subscribe())

    async def _send(self) -> None:
        while True:
            subject = await self._waiting.get()
            try:
                await self._bus.client().publish(subject)
            except (BusAway, NatsError, OSError):
                continue  # a hint: whoever waits looks by itself

    async def _subscribe(self) -> None:
        seen = listening = 0
        while True:
            whole = seen == self._bus.connections and listening == len(self._listeners)
            if whole or not await self._bus.wait_connected(RECONNECT_SECONDS):
                await asyncio.sleep(LOOK_SECONDS)
                continue
            if seen != self._bus.connections:
                seen, listening = self._bus.connections, 0
            try:
                for pattern, heard in self._listeners[listening:]:
                    await self._bus.client().subscribe(pattern, cb=_caller(heard))
                    listening += 1
            except (BusAway, NatsError, OSError) as error:
                log.get_logger().warning("hints are not heard", reason=f"{type(error).__name__}: {error}")
                await asyncio.sleep(LOOK_SECONDS)


def _caller(heard: Callable[[str], None]) -> Callable[[Msg], "asyncio.Future[None]"]:
    async def call(message: Msg) -> None:
        heard(message.subject)

    return call  # type: ignore[return-value] # nats-py takes any coroutine function
