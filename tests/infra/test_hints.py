"""Hints over core NATS: heard within moments, heard again after NATS was away, and never in the way of anybody."""

import asyncio
import time

from gpuaas.infra.embedded.nats import EmbeddedNats
from gpuaas.infra.nats.bus import Bus
from gpuaas.infra.nats.hints import MAX_WAITING, NatsHints
from tests.support.events import eventually


async def test_a_hint_is_heard_by_every_program_that_listens_and_only_for_what_it_listens_to(nats_url: str):
    buses = [Bus(nats_url, name) for name in ("worker", "api", "api")]
    hints = [NatsHints(bus) for bus in buses]
    heard: list[list[str]] = [[], [], []]
    for one, got in zip(hints, heard, strict=True):
        one.listen("hint.tasks.*", got.append)
    for bus in buses:
        bus.start()
    running = [asyncio.create_task(one.run()) for one in hints]
    try:

        async def all_listen() -> bool:
            hints[0].tell("hint.tasks.probe")
            return all("hint.tasks.probe" in got for got in heard)

        await eventually(all_listen)
        started = time.monotonic()
        hints[0].tell("hint.tasks.a-node")
        hints[0].tell("hint.other.a-node")

        async def arrived() -> bool:
            return all("hint.tasks.a-node" in got for got in heard)

        await eventually(arrived, seconds=2)
        assert time.monotonic() - started < 1
        assert not any("hint.other.a-node" in got for got in heard)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for bus in buses:
            await bus.stop()


async def test_hints_are_heard_again_when_nats_is_back_and_dropped_while_it_is_away(nats_server: EmbeddedNats):
    bus = Bus(nats_server.url, "api")
    hints = NatsHints(bus)
    heard: list[str] = []
    hints.listen("hint.tasks.*", heard.append)
    bus.start()
    running = asyncio.create_task(hints.run())
    try:

        async def listens() -> bool:
            hints.tell("hint.tasks.again")
            return bool(heard)

        await eventually(listens)
        client = bus.client()
        await client.close()
        for _ in range(3 * MAX_WAITING):
            hints.tell("hint.tasks.flood")
        heard.clear()
        await eventually(listens, seconds=15)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await bus.stop()
