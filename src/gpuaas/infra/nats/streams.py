"""The streams, as they must be. Whatever is missing or different is put right, at start and while running.

A stream that cannot be changed into what it must be is made anew: the outbox has everything it held."""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

from gpuaas.contracts.events.base import Stream
from gpuaas.infra.nats.bus import NOT_FOUND, Bus, BusAway, BusRefused
from gpuaas.kit import log

SECOND = 1_000_000_000
DUPLICATE_WINDOW_SECONDS = 120
MAX_AGE_SECONDS = 7 * 24 * 3600
MAX_BYTES = 1024 * 1024 * 1024
MAX_MESSAGE_BYTES = 1024 * 1024
LOOK_SECONDS = 10.0
PAUSE_SECONDS = 0.5


def wanted(stream: Stream) -> dict[str, Any]:
    """Only what we insist on: an operator may add replicas or a placement."""
    return {
        "name": stream.value,
        "subjects": [f"{stream.lower()}.>"],
        "retention": "limits",
        "storage": "file",
        "discard": "old",
        "max_age": MAX_AGE_SECONDS * SECOND,
        "max_bytes": MAX_BYTES,
        "max_msg_size": MAX_MESSAGE_BYTES,
        "max_msgs": -1,
        "duplicate_window": DUPLICATE_WINDOW_SECONDS * SECOND,
    }


async def reconcile(bus: Bus, streams: Iterable[Stream] = Stream) -> list[Stream]:
    """Put the streams right; says which were not."""
    return [stream for stream in streams if await _reconcile_one(bus, stream)]


async def _reconcile_one(bus: Bus, stream: Stream) -> bool:
    want = wanted(stream)
    try:
        found = (await bus.ask(f"STREAM.INFO.{stream.value}"))["config"]
    except BusRefused as refusal:
        if refusal.code != NOT_FOUND:
            raise
        await bus.ask(f"STREAM.CREATE.{stream.value}", want)
        log.get_logger().info("stream created", stream=stream.value)
        return True
    different = sorted(key for key, value in want.items() if found.get(key) != value)
    if not different:
        return False
    log.get_logger().warning("stream is not as it must be", stream=stream.value, different=different)
    try:
        await bus.ask(f"STREAM.UPDATE.{stream.value}", found | want)
    except BusRefused as refusal:
        log.get_logger().warning("stream is made anew", stream=stream.value, reason=str(refusal))
        await bus.ask(f"STREAM.DELETE.{stream.value}")
        await bus.ask(f"STREAM.CREATE.{stream.value}", want)
    return True


class StreamKeeper:
    """Looks after the streams while a program runs: at each new connection, every few seconds, and when asked."""

    def __init__(self, bus: Bus, streams: Iterable[Stream] = Stream) -> None:
        self._bus = bus
        self._streams = tuple(streams)
        self._asked = asyncio.Event()
        self.trouble = "the streams were not looked at yet"

    def look(self) -> None:
        """Somebody found a stream missing."""
        self._asked.set()

    async def run(self) -> None:
        while True:
            await self._bus.wait_connected(LOOK_SECONDS)
            self._asked.clear()
            seen = self._bus.connections
            try:
                await reconcile(self._bus, self._streams)
                self.trouble = ""
            except (BusAway, BusRefused) as error:
                self.trouble = str(error)
                log.get_logger().warning("streams not put right", reason=self.trouble)
            await asyncio.sleep(PAUSE_SECONDS)
            if not self.trouble and seen == self._bus.connections:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._asked.wait()

    async def check(self) -> str:
        """For a probe."""
        if not self._bus.connected:
            return f"NATS is away: {self._bus.trouble}"
        return self.trouble
