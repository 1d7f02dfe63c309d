"""Carrying the outbox to NATS: one relay leads, the others stand by.

Always holds: an event is marked only after the stream acknowledged it; no transaction is open while the network is
used; at most two batches are in flight. An event sent twice has the same message id, and consumers keep an inbox.

New rows are looked for every 50 ms. Waking by NOTIFY was measured and left: it serialises commits and took half of the
write path's throughput (2,700 instead of 5,300 transactions a second with 8 clients), the look costs 0.1 ms."""

import asyncio
import contextlib
from collections.abc import Sequence
from uuid import UUID

import msgspec
from prometheus_client import Counter, Gauge

from gpuaas.domains.outbox import service
from gpuaas.domains.outbox.horizon import LATE
from gpuaas.domains.outbox.models import OutboxEvent
from gpuaas.infra.nats.bus import Bus, BusAway
from gpuaas.infra.nats.publish import Flight, Message, Publisher, event_message
from gpuaas.infra.nats.streams import StreamKeeper
from gpuaas.infra.postgres.database import AWAY
from gpuaas.infra.postgres.exclusive import LockSession
from gpuaas.infra.postgres.tx import NIL, Tx
from gpuaas.kit import clock, log, trace
from gpuaas.kit.errors import Unavailable
from gpuaas.kit.ids import floor_id

LOCK = "relay"
BATCH = 500
IDLE_SECONDS = 0.05
STAND_BY_SECONDS = 1.0
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
MEASURE_SECONDS = 5.0
LOOK_AT_ALL_SECONDS = 30.0
PUBLISHED = Counter("gpuaas_outbox_published", "Events acknowledged by NATS.")
UNPUBLISHED = Gauge("gpuaas_outbox_unpublished", "Events that wait to be published, as the leading relay sees it.")
LAG = Gauge("gpuaas_outbox_lag_seconds", "Age of the oldest event that waits to be published.")
LEADING = Gauge("gpuaas_relay_leading", "Whether this relay is the one that publishes.")


class Batch(msgspec.Struct, frozen=True):
    ids: list[UUID]
    flight: Flight


class NotAllLanded(Exception):
    """Some events of a batch are not in their stream: they are read and sent again."""


class Relay:
    """Runs until `stop`; leads when it can."""

    def __init__(self, database_url: str, bus: Bus, keeper: StreamKeeper) -> None:
        self._url = database_url
        self._bus = bus
        self._keeper = keeper
        self._publisher = Publisher(bus)
        self._stopping = asyncio.Event()
        self._measured_at = self._looked_at = float("-inf")
        self._pause = FIRST_PAUSE_SECONDS

    def stop(self) -> None:
        """Finish the batch in hand and return."""
        self._stopping.set()

    async def run(self) -> None:
        while not self._stopping.is_set():
            try:
                session = await LockSession.open(self._url, LOCK)
            except Unavailable as fault:
                log.get_logger().warning("waiting for the database", reason=fault.log)
                await self._wait(STAND_BY_SECONDS)
                continue
            try:
                await self._serve(session)
            except (*AWAY, Unavailable) as error:
                log.get_logger().warning("the relay's session ended", reason=f"{type(error).__name__}: {error}")
                await self._wait(FIRST_PAUSE_SECONDS)
            finally:
                LEADING.set(0)
                UNPUBLISHED.set(0)
                LAG.set(0)
                await session.close()

    async def _serve(self, session: LockSession) -> None:
        while not await session.take(LOCK):
            await self._wait(STAND_BY_SECONDS)
            if self._stopping.is_set():
                return
        LEADING.set(1)
        log.get_logger().info("leading")
        while not self._stopping.is_set():
            try:
                await self._drain(session.tx)
                self._pause = FIRST_PAUSE_SECONDS
            except (BusAway, NotAllLanded) as error:
                log.get_logger().warning("not published", reason=str(error), pause_seconds=round(self._pause, 2))
                self._keeper.look()
                await self._measure(session.tx)
                await self._wait(self._pause)
                self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)

    async def _drain(self, tx: Tx) -> None:
        """Publish until told to stop or something is in the way. While a batch flies, the next one is read."""
        self._looked_at = float("-inf")
        after, ahead = self._beginning(), None
        while not self._stopping.is_set():
            await self._measure(tx)
            events = await service.events_unpublished(tx, after=after, limit=BATCH)
            batch = await self._send(events) if events else None
            if ahead is not None:
                await self._settle(tx, ahead)
            ahead = batch
            if len(events) == BATCH:
                after = events[-1].id
                continue
            if batch is not None:
                await self._settle(tx, batch)
            after, ahead = self._beginning(), None
            if not events:
                await self._wait(IDLE_SECONDS)
        if ahead is not None:
            await self._settle(tx, ahead)

    def _beginning(self) -> UUID:
        """Where to look from. The index still has the entries of what was published since the last vacuum, so most
        looks begin a while ago and only some at the very beginning."""
        if clock.monotonic() - self._looked_at < LOOK_AT_ALL_SECONDS:
            return floor_id(clock.now() - LATE)
        self._looked_at = clock.monotonic()
        return NIL

    async def _send(self, events: Sequence[OutboxEvent]) -> Batch:
        with trace.span("outbox.relay", events=len(events)):
            messages = [_message(event) for event in events]
            return Batch([event.id for event in events], await self._publisher.send(messages))

    async def _settle(self, tx: Tx, batch: Batch) -> None:
        landed = await batch.flight.landed()
        await service.events_published(tx, [batch.ids[index] for index in sorted(landed)])
        PUBLISHED.inc(len(landed))
        if len(landed) < len(batch.ids):
            raise NotAllLanded(f"{len(batch.ids) - len(landed)} of {len(batch.ids)} events not acknowledged")
        self._pause = FIRST_PAUSE_SECONDS

    async def _measure(self, tx: Tx) -> None:
        if clock.monotonic() - self._measured_at >= MEASURE_SECONDS:
            self._measured_at = clock.monotonic()
            found = await service.outbox_backlog(tx)
            UNPUBLISHED.set(found.unpublished)
            LAG.set(found.oldest_seconds)

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()


def _message(event: OutboxEvent) -> Message:
    """With spans on, the consumer's span hangs below the one of publishing."""
    envelope = event.envelope()
    if not trace.recording():
        return event_message(envelope, event.nats_subject)
    trace.enter(event.traceparent)
    with trace.span(f"publish {event.name}", event_id=str(event.id)):
        return event_message(msgspec.structs.replace(envelope, traceparent=trace.traceparent()), event.nats_subject)
