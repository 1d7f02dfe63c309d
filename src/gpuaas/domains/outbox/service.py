"""The verbs of events on their way: publish, handle once, give up, replay, discard.

Always holds: a reaction's effect and its inbox row commit together, so an event delivered any number of times has one
effect; what fails too often becomes a dead letter, and only an operator moves it on."""

from collections.abc import Sequence
from enum import Enum, auto
from uuid import UUID

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.base import EVENT_TYPES, Stream
from gpuaas.contracts.events.dlq import DeadLetterOpened
from gpuaas.domains.outbox import store
from gpuaas.domains.outbox.models import Backlog, DeadLetter, OutboxEvent
from gpuaas.domains.outbox.states import DeadLetterState
from gpuaas.infra.events import MAX_ATTEMPTS, Reaction
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit import log
from gpuaas.kit.errors import Fault, Missing
from gpuaas.kit.ids import DeadLetterId
from gpuaas.kit.parts import Parts

MAX_REASON = 1000
EVERYTHING = Sight(PLATFORM)


class Outcome(Enum):
    HANDLED = auto()
    NOT_OURS = auto()
    """Handled before, given up on, or never in the books: there is nothing to do."""


# the way out --------------------------------------------------------------------------------------------------------
async def events_unpublished(tx: Tx, *, after: UUID, limit: int) -> list[OutboxEvent]:
    return await store.events_unpublished(tx, after=after, limit=limit)


async def events_published(tx: Tx, ids: Sequence[UUID]) -> None:
    await store.events_published(tx, ids)


async def outbox_backlog(tx: Tx) -> Backlog:
    return await store.backlog(tx)


# the way in ---------------------------------------------------------------------------------------------------------
async def event_handle(
    db: Database, reaction: Reaction, event_id: UUID, org_id: UUID | None, parts: Parts, *, again: bool = False
) -> Outcome:
    """Run a reaction in one transaction with its inbox row. `again` also clears what earlier attempts left."""
    async with db.transaction(Sight(org_id or PLATFORM), f"system:{reaction.name}") as tx:
        event = await store.event_claim(tx, reaction.name, event_id, org_id)
        if event is None:
            return Outcome.NOT_OURS
        if again:
            await store.resolve(tx, reaction.name, event_id)
            await store.attempts_forget(tx, reaction.name, event_id)
        envelope = event.envelope()
        payload = msgspec.json.decode(envelope.payload, type=EVENT_TYPES[event.name])
        if reaction.wants_parts:
            await reaction.handler(tx, payload, envelope, parts=parts)
        else:
            await reaction.handler(tx, payload, envelope)
    return Outcome.HANDLED


async def attempt_begin(db: Database, consumer: str, event_id: UUID) -> int | None:
    """Count an attempt before it is made, so that one which kills the program counts too."""
    async with db.transaction(EVERYTHING, f"system:{consumer}") as tx:
        return await store.attempt_count(tx, consumer, event_id)


async def attempt_failed(
    db: Database, consumer: str, event_id: UUID, error: BaseException, *, counted: int | None
) -> tuple[int, DeadLetter | None]:
    """How many attempts that makes, and the dead letter if it was the last one."""
    async with db.transaction(EVERYTHING, f"system:{consumer}") as tx:
        attempts = counted if counted is not None else await store.attempt_count(tx, consumer, event_id)
        if attempts is None or attempts < MAX_ATTEMPTS:
            return attempts or 0, None
        return attempts, await _give_up(tx, consumer, event_id, reason_text(error), attempts)


async def _give_up(tx: Tx, consumer: str, event_id: UUID, reason: str, attempts: int) -> DeadLetter | None:
    event = await store.event_get(tx, event_id)
    if event is None:
        return None
    letter = await store.dead_letter_open(tx, consumer, event, reason=reason, attempts=attempts)
    await store.attempts_forget(tx, consumer, event_id)
    # A letter about a letter would breed: those of the dead-letter stream itself are only rows.
    if letter is not None and event.stream != Stream.DLQ:
        tx.emit(
            DeadLetterOpened(
                dead_letter_id=letter.id,
                consumer=consumer,
                event_id=event.id,
                event_name=event.name,
                attempts=attempts,
            ),
            subject_id=letter.id,
            org_id=event.org_id,
        )
    return letter


def reason_text(error: BaseException) -> str:
    """Why it failed, fit to be stored: scrubbed and bounded."""
    said = f"{error.message} {error.log}".strip() if isinstance(error, Fault) else str(error)
    return str(log.scrub_text(f"{type(error).__name__}: {said}"))[:MAX_REASON]


# dead letters -------------------------------------------------------------------------------------------------------
async def dead_letter_list(
    tx: Tx, *, state: DeadLetterState | None, consumer: str | None, after: UUID, limit: int
) -> list[DeadLetter]:
    return await store.dead_letter_list(tx, state=state, consumer=consumer, after=after, limit=limit)


async def dead_letter_get(tx: Tx, dead_letter_id: DeadLetterId) -> tuple[DeadLetter, OutboxEvent | None]:
    """With the event itself, while it is kept."""
    letter = await _letter(tx, dead_letter_id)
    return letter, await store.event_get(tx, letter.event_id)


async def dead_letter_replay(tx: Tx, dead_letter_id: DeadLetterId) -> DeadLetter:
    """Ask for one more delivery; a worker makes it within seconds."""
    await _letter(tx, dead_letter_id)
    return await store.move(tx, dead_letter_id, to=DeadLetterState.REPLAYING, note="")


async def dead_letter_discard(tx: Tx, dead_letter_id: DeadLetterId, *, reason: str) -> DeadLetter:
    """Decide that the event is never handled by this consumer."""
    await _letter(tx, dead_letter_id)
    return await store.move(tx, dead_letter_id, to=DeadLetterState.DISCARDED, note=reason)


async def dead_letter_settle(db: Database, letter: DeadLetter) -> None:
    """The replay found nothing to do: the event is handled, or its row is gone."""
    async with db.transaction(EVERYTHING, "system:outbox.replay") as tx:
        if await store.event_get(tx, letter.event_id) is None:
            await store.move(tx, letter.id, to=DeadLetterState.OPEN, reason="the event is past its retention")
        else:
            await store.move(tx, letter.id, to=DeadLetterState.RESOLVED)


async def dead_letter_refused(db: Database, letter: DeadLetter, reason: str) -> None:
    """The replay failed: it waits for an operator again, with the new reason."""
    async with db.transaction(EVERYTHING, "system:outbox.replay") as tx:
        await store.move(tx, letter.id, to=DeadLetterState.OPEN, reason=reason, attempts=1)


async def _letter(tx: Tx, dead_letter_id: DeadLetterId) -> DeadLetter:
    letter = await store.dead_letter_get(tx, dead_letter_id)
    if letter is None:
        raise Missing(Code.DEAD_LETTER_MISSING, "There is no such dead letter.")
    return letter
