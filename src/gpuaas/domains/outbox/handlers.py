"""Timers of events on their way: the auditor, replays, deadlines, depth, retention.

Always holds: whatever NATS loses, the auditor finds in the books and sends again; nothing is thrown away that somebody
has not handled."""

import asyncio
import contextlib
from datetime import datetime
from uuid import UUID

import msgspec
from prometheus_client import Counter, Gauge

from gpuaas.domains.outbox import service, store
from gpuaas.domains.outbox.horizon import LATE, SKEW, YOUNG, Standing, arrived_by, born_at
from gpuaas.domains.outbox.models import DeadLetter, Survey
from gpuaas.domains.outbox.service import EVERYTHING
from gpuaas.domains.outbox.states import DeadLetterState
from gpuaas.infra.events import HANDLER_SECONDS, HandlerRegistry, Reaction, timer
from gpuaas.infra.nats.bus import NOT_FOUND, Bus, BusAway, BusRefused
from gpuaas.infra.nats.publish import Publisher, event_message
from gpuaas.infra.nats.pull import Consumer, consumer_info
from gpuaas.infra.postgres import retention
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import NIL
from gpuaas.kit import clock, log, trace
from gpuaas.kit.errors import Conflict
from gpuaas.kit.ids import EventId, floor_id
from gpuaas.kit.parts import Parts

SCAN = 20_000
SEND_AGAIN = 5_000
CHUNK = 500
REPLAYS = 20
ATTEMPTS_PRUNED = 10_000
MISSING = Gauge("gpuaas_consumer_missing", "Events a consumer has not handled 30 s after they happened.", ["consumer"])
SENT_AGAIN = Counter("gpuaas_events_sent_again", "Events the auditor found lost and sent again.", ["consumer"])
DEAD = Gauge("gpuaas_dead_letters", "Dead letters that wait, by state.", ["state"])


def consumers_of(reaction: Reaction) -> list[Consumer]:
    return [Consumer(reaction.name, stream, tuple(reaction.subjects(stream))) for stream in reaction.streams]


async def start_time(db: Database, consumer: str) -> datetime | None:
    """Where a consumer that NATS does not know begins: just before the first event the books do not say it has."""
    async with db.read(EVERYTHING) as tx:
        through = (await store.progress(tx, consumer)).complete_through
    return None if through == NIL else born_at(through) - LATE


# the auditor --------------------------------------------------------------------------------------------------------
@timer("outbox.audit", every_seconds=5)
async def events_audit(parts: Parts) -> None:
    """Soon after: what should have arrived and has not is sent again."""
    before = floor_id(clock.now() - YOUNG)
    for reaction in parts.get(HandlerRegistry).reactions():
        await _audit(parts, reaction, before, final=False)


@timer("outbox.settle", every_seconds=60)
async def events_settle(parts: Parts) -> None:
    """Later again, for what was committed late: only then is a consumer complete up to there."""
    before, reactions = floor_id(clock.now() - LATE), parts.get(HandlerRegistry).reactions()
    await _forget_others(parts.get(Database), [reaction.name for reaction in reactions])
    for reaction in reactions:
        await _audit(parts, reaction, before, final=True)


async def _forget_others(db: Database, known: list[str]) -> None:
    """A reaction that is no longer declared falls behind for ever, and nobody is to be told. Should an older worker do
    this to a newer one's reaction, that is looked at from the beginning once more: what it has handled, it has."""
    async with db.transaction(EVERYTHING, "system:outbox.settle") as tx:
        forgotten = await store.consumers_forget(tx, known=known)
    if forgotten:
        log.get_logger().info("consumers forgotten", consumers=forgotten)


async def _audit(parts: Parts, reaction: Reaction, before: UUID, *, final: bool) -> None:
    db = parts.get(Database)
    async with db.read(EVERYTHING) as tx:
        progress = await store.progress(tx, reaction.name)
        after = progress.complete_through if final else progress.checked_through
        if after >= before:
            return
        survey = await store.survey(tx, reaction.name, reaction.event_names, after=after, before=before, limit=SCAN)
    if not final:
        MISSING.labels(reaction.name).set(len(survey.missing))
    if survey.missing:
        await _send_lost(parts, reaction, survey.missing)
    through = complete_through(survey, before)
    if through > after:
        async with db.transaction(EVERYTHING, "system:outbox.audit") as tx:
            advance = store.advance_complete if final else store.advance_checked
            await advance(tx, reaction.name, through)


def complete_through(survey: Survey, before: UUID) -> UUID:
    """The last id up to which nothing is missing."""
    if survey.missing:
        return UUID(int=survey.missing[0].int - 1)
    if survey.whole or survey.scanned_through is None:
        return UUID(int=before.int - 1)
    return survey.scanned_through


async def _send_lost(parts: Parts, reaction: Reaction, missing: list[EventId]) -> None:
    db, publisher = parts.get(Database), parts.get(Publisher)
    try:
        due = [await _arrived_by(parts.get(Bus), consumer) for consumer in consumers_of(reaction)]
        published_before = min((at for at in due if at is not None), default=None)
        if published_before is None:
            return
        async with db.read(EVERYTHING) as tx:
            lost = await store.events_lost(tx, missing, published_before=published_before, limit=SEND_AGAIN)
        for start in range(0, len(lost), CHUNK):
            async with db.read(EVERYTHING) as tx:
                events = await store.events_by_id(tx, lost[start : start + CHUNK])
            # Within its duplicate window the stream would drop the event's own id.
            messages = [
                event_message(e.envelope(), e.nats_subject, message_id=f"{e.id}:{clock.epoch_ms()}") for e in events
            ]
            landed = await publisher.publish(messages)
            async with db.transaction(EVERYTHING, "system:outbox.audit") as tx:
                await store.events_published(tx, [events[index].id for index in sorted(landed)])
            SENT_AGAIN.labels(reaction.name).inc(len(landed))
            log.get_logger().warning("lost events sent again", consumer=reaction.name, events=len(landed))
    except (BusAway, BusRefused) as error:
        log.get_logger().warning("lost events not sent again", consumer=reaction.name, reason=str(error))


async def _arrived_by(bus: Bus, consumer: Consumer) -> datetime | None:
    info = await consumer_info(bus, consumer)
    if info is None:
        return None  # it is made anew by whoever pulls, and begins where the books say
    waiting = int(info["num_pending"]) + int(info["num_ack_pending"])
    if waiting == 0:
        return arrived_by(Standing(0, None, None), clock.now())
    stream = consumer.stream.value
    state = (await bus.ask(f"STREAM.INFO.{stream}"))["state"]
    done, first = int(info["ack_floor"]["stream_seq"]), int(state["first_seq"])
    done_at = await _message_at(bus, stream, done) if done >= first else None
    return arrived_by(Standing(waiting, msgspec.convert(state["first_ts"], datetime), done_at), clock.now())


async def _message_at(bus: Bus, stream: str, sequence: int) -> datetime | None:
    try:
        found = await bus.ask(f"STREAM.MSG.GET.{stream}", {"seq": sequence})
    except BusRefused as refusal:
        if refusal.code != NOT_FOUND:
            raise
        return None
    return msgspec.convert(found["message"]["time"], datetime)


# dead letters -------------------------------------------------------------------------------------------------------
@timer("outbox.replay", every_seconds=1, deadline_seconds=REPLAYS * HANDLER_SECONDS)
async def dead_letters_replay(parts: Parts) -> None:
    """Deliver what an operator asked to be delivered again, the same way as any event: once."""
    db = parts.get(Database)
    async with db.read(EVERYTHING) as tx:
        letters = await store.dead_letter_list(
            tx, state=DeadLetterState.REPLAYING, consumer=None, after=NIL, limit=REPLAYS
        )
    for letter in letters:
        log.correlation_id.set(letter.correlation_id)
        with trace.span("dead_letter.replay", consumer=letter.consumer):
            await _replay(parts, letter)


async def _replay(parts: Parts, letter: DeadLetter) -> None:
    db = parts.get(Database)
    refused, handled = await _deliver_again(parts, letter)
    with contextlib.suppress(Conflict):  # the deadline, or another worker, moved it meanwhile
        if refused:
            await service.dead_letter_refused(db, letter, refused)
        elif not handled:
            await service.dead_letter_settle(db, letter)


async def _deliver_again(parts: Parts, letter: DeadLetter) -> tuple[str, bool]:
    """Why not, and whether it was handled now. Whatever a reaction raises is the new reason of its letter."""
    reaction = parts.get(HandlerRegistry).reaction(letter.consumer)
    if reaction is None:
        return "no consumer of this name exists any more: discard it", False
    try:
        async with asyncio.timeout(HANDLER_SECONDS):
            outcome = await service.event_handle(
                parts.get(Database), reaction, letter.event_id, letter.org_id, parts, again=True
            )
    except Exception as error:  # noqa: BLE001 - a reaction may raise anything
        return service.reason_text(error), False
    return "", outcome is service.Outcome.HANDLED


@timer("outbox.deadlines", every_seconds=15)
async def dead_letters_overdue(parts: Parts) -> None:
    """A replay that did not end goes back to its operator."""
    async with parts.get(Database).transaction(EVERYTHING, "system:outbox.deadlines") as tx:
        for letter in await store.move_overdue(tx):
            log.get_logger().warning("replay overdue", consumer=letter.consumer, event_id=str(letter.event_id))


@timer("outbox.depth", every_seconds=10)
async def dead_letters_count(parts: Parts) -> None:
    """What the alert on dead letters looks at."""
    async with parts.get(Database).read(EVERYTHING) as tx:
        for state, letters in (await store.dead_letters_waiting(tx)).items():
            DEAD.labels(state).set(letters)


# retention ----------------------------------------------------------------------------------------------------------
@timer("outbox.months_ahead", every_seconds=6 * 3600)
async def months_make(parts: Parts) -> None:
    """A month without a partition would refuse every change."""
    made = await retention.ensure_partitions(parts.get(Database))
    if made:
        log.get_logger().info("months made", tables=made)


@timer("outbox.retention", every_seconds=3600, deadline_seconds=600)
async def events_prune(parts: Parts) -> None:
    """Drop events past their retention that were published and handled by every consumer, or given up on."""
    db = parts.get(Database)
    consumers = [reaction.name for reaction in parts.get(HandlerRegistry).reactions()]
    async with db.read(EVERYTHING) as tx:
        needed = await store.needed_from(tx, consumers)
    before = parts.get(retention.Retention).events_before()
    if needed is not None:
        before = min(before, born_at(needed) - SKEW)
    dropped = await retention.drop_event_months(db, before)
    async with db.transaction(EVERYTHING, "system:outbox.retention") as tx:
        await store.attempts_prune(tx, before=before, limit=ATTEMPTS_PRUNED)
    if dropped:
        log.get_logger().info("months of events dropped", tables=dropped)


@timer("outbox.answers", every_seconds=3600, deadline_seconds=600)
async def answers_prune(parts: Parts) -> None:
    """Forget answers to idempotency keys past their retention, and rate marks nobody waits for."""
    db = parts.get(Database)
    await retention.prune_answers(db, parts.get(retention.Retention).answers_before())
    await retention.prune_rate_marks(db)
