"""The streams, as they must be. Whatever is missing or different is put right, at start and while running.

A stream that cannot be changed into what it must be is made anew: the outbox has everything it held."""

from collections.abc import Iterable
from typing import Any

from gpuaas.contracts.events.base import Stream
from gpuaas.infra.nats.bus import NOT_FOUND, Bus, BusRefused
from gpuaas.kit import log

SECOND = 1_000_000_000
DUPLICATE_WINDOW_SECONDS = 120
MAX_AGE_SECONDS = 7 * 24 * 3600
MAX_BYTES = 1024 * 1024 * 1024
MAX_MESSAGE_BYTES = 1024 * 1024


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
