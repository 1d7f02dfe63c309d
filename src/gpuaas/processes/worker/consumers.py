"""Running the reactions: each message is handled in one transaction with its inbox row, then acknowledged.

Always holds: a message is acknowledged only when its event is handled, given up on, or none of ours. Failures are
counted in the database, so the count is the same whoever delivers: NATS, NATS after it forgot, the auditor. An attempt
after the first is counted before it is made, so that one which kills the program counts; while the database is away
nothing counts."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
from nats.aio.msg import Msg
from prometheus_client import Counter, Histogram

from gpuaas.domains.outbox import service
from gpuaas.domains.outbox.backoff import FIRST_SECONDS, retry_seconds
from gpuaas.domains.outbox.handlers import consumers_of, start_time
from gpuaas.infra.events import HANDLER_SECONDS, MAX_ATTEMPTS, Reaction
from gpuaas.infra.nats.bus import Bus
from gpuaas.infra.nats.publish import CORRELATION, TRACEPARENT
from gpuaas.infra.nats.pull import Puller
from gpuaas.infra.postgres.database import Database
from gpuaas.kit import clock, log, trace
from gpuaas.kit.parts import Parts

SLOTS = 8
EVENTS = Counter("gpuaas_events", "Events by consumer and what became of them.", ["consumer", "outcome"])
SECONDS = Histogram(
    "gpuaas_event_seconds",
    "Time a reaction took.",
    ["consumer"],
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 25),
)


class Heard(msgspec.Struct, frozen=True):
    """All that is taken from a message: which event. The rest is read from the books."""

    id: UUID
    org_id: UUID | None
    correlation_id: str = ""
    traceparent: str = ""


class DidNotReturn(Exception):
    """Every attempt ended without an answer: the reaction hangs, or kills the program."""


_DECODER = msgspec.json.Decoder(Heard)


class Consumers:
    """All reactions of this worker, until cancelled. Together they use at most `slots` database connections."""

    def __init__(
        self,
        db: Database,
        bus: Bus,
        parts: Parts,
        reactions: Sequence[Reaction],
        *,
        slots: int = SLOTS,
        first_retry_seconds: float = FIRST_SECONDS,
    ) -> None:
        self._db = db
        self._parts = parts
        self._free = asyncio.Semaphore(slots)
        self._first_retry_seconds = first_retry_seconds
        self._pullers = [
            Puller(bus, consumer, self._taker(reaction), self._starter(reaction), slots=slots)
            for reaction in reactions
            for consumer in consumers_of(reaction)
        ]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for puller in self._pullers:
                group.create_task(puller.run())
        await asyncio.Future()  # a role without reactions has its timers to run

    async def finish(self, seconds: float) -> None:
        """Once `run` is cancelled: wait for what is in hand."""
        await asyncio.gather(*(puller.finish(seconds) for puller in self._pullers))

    def _starter(self, reaction: Reaction) -> Any:
        return lambda: start_time(self._db, reaction.name)

    def _taker(self, reaction: Reaction) -> Any:
        async def take(message: Msg) -> None:
            try:
                heard = _DECODER.decode(message.data)
            except msgspec.MsgspecError as error:
                log.get_logger().error("not an event", consumer=reaction.name, reason=str(error))
                EVENTS.labels(reaction.name, "unreadable").inc()
                await message.term()
                return
            headers = message.headers or {}
            log.correlation_id.set(headers.get(CORRELATION) or heard.correlation_id)
            trace.enter(headers.get(TRACEPARENT) or heard.traceparent)
            async with self._free:
                with trace.span(f"react {reaction.name}", event_id=str(heard.id)):
                    await self._attempt(reaction, heard, message)

        return take

    async def _attempt(self, reaction: Reaction, heard: Heard, message: Msg) -> None:
        counted: int | None = None
        started = clock.monotonic()
        try:
            if message.metadata.num_delivered > 1:
                counted = await service.attempt_begin(self._db, reaction.name, heard.id)
                if counted is None:
                    await self._end(reaction, message, "repeated")
                    return
                if counted > MAX_ATTEMPTS:
                    raise DidNotReturn
            outcome = await self._handle(reaction, heard, again=counted is not None)
        except Exception as error:  # noqa: BLE001 - a reaction may raise anything; it is counted and tried again
            await self._failed(reaction, heard, message, error, counted)
            return
        SECONDS.labels(reaction.name).observe(clock.monotonic() - started)
        await self._end(reaction, message, "handled" if outcome is service.Outcome.HANDLED else "repeated")

    async def _handle(self, reaction: Reaction, heard: Heard, *, again: bool) -> service.Outcome:
        async with asyncio.timeout(HANDLER_SECONDS):
            return await service.event_handle(self._db, reaction, heard.id, heard.org_id, self._parts, again=again)

    async def _failed(
        self, reaction: Reaction, heard: Heard, message: Msg, error: Exception, counted: int | None
    ) -> None:
        try:
            attempts, letter = await service.attempt_failed(self._db, reaction.name, heard.id, error, counted=counted)
        except Exception as second:  # noqa: BLE001 - the database is away: nothing is counted, NATS asks again
            EVENTS.labels(reaction.name, "postponed").inc()
            log.get_logger().warning("event postponed", consumer=reaction.name, reason=service.reason_text(second))
            await message.nak(delay=self._delay(message.metadata.num_delivered))
            return
        reason = service.reason_text(error)
        if letter is not None or attempts >= MAX_ATTEMPTS or attempts == 0:
            log.get_logger().error(
                "event is dead", consumer=reaction.name, event_id=str(heard.id), attempts=attempts, reason=reason
            )
            await self._end(reaction, message, "dead" if letter is not None else "repeated")
            return
        EVENTS.labels(reaction.name, "failed").inc()
        log.get_logger().warning(
            "event failed", consumer=reaction.name, event_id=str(heard.id), attempts=attempts, reason=reason
        )
        await message.nak(delay=self._delay(attempts))

    async def _end(self, reaction: Reaction, message: Msg, outcome: str) -> None:
        EVENTS.labels(reaction.name, outcome).inc()
        await message.ack()

    def _delay(self, attempts: int) -> float:
        return retry_seconds(attempts, random.random(), self._first_retry_seconds)  # noqa: S311 - only spreads retries
