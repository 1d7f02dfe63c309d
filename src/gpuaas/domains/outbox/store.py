"""All SQL about events on their way. Every statement here works on the platform's sight, except `event_claim`, which
runs in the transaction of the reaction itself."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.domains.outbox.models import Backlog, DeadLetter, OutboxEvent, Progress, Survey
from gpuaas.domains.outbox.states import LIFE, WAITING, DeadLetterState
from gpuaas.infra.postgres.tx import NIL, Tx, decode, decode_all
from gpuaas.kit.errors import Conflict
from gpuaas.kit.ids import DeadLetterId, EventId, new_id

MAX_COUNTED = 100_000

UNPUBLISHED = "SELECT * FROM outbox WHERE published_at IS NULL AND id > $1 ORDER BY id LIMIT $2"
# Bounds beside the list, so that only the partitions concerned are opened.
PUBLISHED = "UPDATE outbox SET published_at = now() WHERE id = ANY($1) AND id >= $2 AND id <= $3"
BACKLOG = """
SELECT count(*) AS unpublished, coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS oldest_seconds
FROM (SELECT created_at FROM outbox WHERE published_at IS NULL ORDER BY id LIMIT $1) AS waiting
"""
EVENTS = "SELECT * FROM outbox WHERE id = ANY($1) AND id >= $2 AND id <= $3 ORDER BY id"
EVENT = "SELECT * FROM outbox WHERE id = $1"

# The bus brings an id; what happened is read here. An event somebody has given up on is not taken up behind his back.
CLAIM = """
WITH event AS (
    SELECT * FROM outbox WHERE id = $2 AND org_id IS NOT DISTINCT FROM $3
), claimed AS (
    INSERT INTO inbox (consumer, event_id)
    SELECT $1, id FROM event
    WHERE NOT EXISTS (SELECT FROM dead_letters d
                      WHERE d.consumer = $1 AND d.event_id = $2 AND d.state IN ('open', 'discarded'))
    ON CONFLICT DO NOTHING RETURNING true
)
SELECT * FROM event WHERE EXISTS (SELECT FROM claimed)
"""
ATTEMPT = """
INSERT INTO delivery_attempts (consumer, event_id, attempts)
SELECT $1, $2, 1 WHERE NOT EXISTS (SELECT FROM inbox i WHERE i.consumer = $1 AND i.event_id = $2)
ON CONFLICT (consumer, event_id) DO UPDATE SET attempts = delivery_attempts.attempts + 1, last_at = now()
RETURNING attempts
"""
ATTEMPTS = "SELECT attempts FROM delivery_attempts WHERE consumer = $1 AND event_id = $2"
FORGET_ATTEMPTS = "DELETE FROM delivery_attempts WHERE consumer = $1 AND event_id = $2"

OPEN = """
INSERT INTO dead_letters (id, consumer, event_id, event_name, org_id, correlation_id, reason, attempts, state)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, 'open'
WHERE NOT EXISTS (SELECT FROM inbox i WHERE i.consumer = $2 AND i.event_id = $3)
ON CONFLICT (consumer, event_id) DO NOTHING RETURNING *
"""
MOVE = """
UPDATE dead_letters SET state = $2, state_since = now(), note = coalesce($4, note), reason = coalesce($5, reason),
    attempts = attempts + $6
WHERE id = $1 AND state = ANY($3) RETURNING *
"""
OVERDUE = """
UPDATE dead_letters SET state = $2, state_since = now(), note = 'the replay did not end in time'
WHERE state = $1 AND state_since < now() - $3::interval RETURNING *
"""
RESOLVE = """
UPDATE dead_letters SET state = 'resolved', state_since = now()
WHERE consumer = $1 AND event_id = $2 AND state = ANY($3)
"""
DEAD_LETTER = "SELECT * FROM dead_letters WHERE id = $1"
DEAD_LETTERS = """
SELECT * FROM dead_letters
WHERE id > $1 AND ($2::text IS NULL OR state = $2) AND ($3::text IS NULL OR consumer = $3) ORDER BY id LIMIT $4
"""
WAITING_BY_STATE = "SELECT state, count(*) AS letters FROM dead_letters WHERE state = ANY($1) GROUP BY state"

PROGRESS = "SELECT checked_through, complete_through FROM consumer_progress WHERE consumer = $1"
ADVANCE_CHECKED = """
INSERT INTO consumer_progress (consumer, checked_through, complete_through) VALUES ($1, $2, $3)
ON CONFLICT (consumer) DO UPDATE SET updated_at = now(),
    checked_through = greatest(consumer_progress.checked_through, excluded.checked_through)
"""
ADVANCE_COMPLETE = """
INSERT INTO consumer_progress (consumer, checked_through, complete_through) VALUES ($1, $2, $2)
ON CONFLICT (consumer) DO UPDATE SET updated_at = now(),
    complete_through = greatest(consumer_progress.complete_through, excluded.complete_through),
    checked_through = greatest(consumer_progress.checked_through, excluded.complete_through)
"""
FORGET_CONSUMERS = "DELETE FROM consumer_progress WHERE NOT consumer = ANY($1) RETURNING consumer"
# Each row is looked up by itself (LIMIT keeps the planner from joining): a join is chosen by statistics, and with the
# stale ones of a table that just grew it took 10 s for 5,000 rows instead of 0.1 s.
SURVEY = """
WITH scanned AS MATERIALIZED (
    SELECT id, name FROM outbox WHERE id > $2 AND id < $3 ORDER BY id LIMIT $5
), missing AS (
    SELECT s.id FROM scanned s
    LEFT JOIN LATERAL (
        SELECT true AS yes FROM inbox i WHERE i.consumer = $1 AND i.event_id = s.id LIMIT 1) handled ON true
    LEFT JOIN LATERAL (
        SELECT true AS yes FROM dead_letters d WHERE d.consumer = $1 AND d.event_id = s.id LIMIT 1) dead ON true
    WHERE s.name = ANY($4) AND handled.yes IS NULL AND dead.yes IS NULL
)
SELECT (SELECT id FROM scanned ORDER BY id DESC LIMIT 1) AS scanned_through,
       (SELECT count(*) FROM scanned) < $5 AS whole,
       coalesce((SELECT array_agg(id ORDER BY id) FROM missing), '{}') AS missing
"""
LOST = """
SELECT id FROM outbox WHERE id = ANY($1) AND id >= $2 AND id <= $3 AND published_at < $4 ORDER BY id LIMIT $5
"""
# What may be thrown away ends before the first event somebody may still need.
NEEDED_FROM = """
SELECT (SELECT id FROM outbox WHERE published_at IS NULL ORDER BY id LIMIT 1) AS unpublished,
       (SELECT event_id FROM dead_letters WHERE state = ANY($1) ORDER BY event_id LIMIT 1) AS dead,
       (SELECT coalesce(p.complete_through, $3) FROM unnest($2::text[]) AS c (consumer)
        LEFT JOIN consumer_progress p USING (consumer) ORDER BY 1 LIMIT 1) AS unchecked
"""
PRUNE_ATTEMPTS = """
DELETE FROM delivery_attempts WHERE last_at < $1 AND (consumer, event_id) IN
    (SELECT consumer, event_id FROM delivery_attempts WHERE last_at < $1 LIMIT $2)
"""


# the way out --------------------------------------------------------------------------------------------------------
async def events_unpublished(tx: Tx, *, after: UUID, limit: int) -> list[OutboxEvent]:
    return decode_all(OutboxEvent, await tx.rows(UNPUBLISHED, after, limit))


async def events_published(tx: Tx, ids: Sequence[UUID]) -> None:
    if ids:
        await tx.run(PUBLISHED, list(ids), min(ids), max(ids))


async def backlog(tx: Tx) -> Backlog:
    row = await tx.row(BACKLOG, MAX_COUNTED)
    return Backlog(row["unpublished"], row["oldest_seconds"]) if row else Backlog(0, 0.0)


# the way in ---------------------------------------------------------------------------------------------------------
async def event_claim(tx: Tx, consumer: str, event_id: UUID, org_id: UUID | None) -> OutboxEvent | None:
    """The event, if it is this consumer's to handle in this transaction."""
    row = await tx.row(CLAIM, consumer, event_id, org_id)
    return None if row is None else decode(OutboxEvent, row)


async def event_get(tx: Tx, event_id: UUID) -> OutboxEvent | None:
    row = await tx.row(EVENT, event_id)
    return None if row is None else decode(OutboxEvent, row)


async def attempt_count(tx: Tx, consumer: str, event_id: UUID) -> int | None:
    """One more attempt; how many that makes. None when the event is handled already."""
    count: int | None = await tx.value(ATTEMPT, consumer, event_id)
    return count


async def attempts_made(tx: Tx, consumer: str, event_id: UUID) -> int:
    return int(await tx.value(ATTEMPTS, consumer, event_id) or 0)


async def attempts_forget(tx: Tx, consumer: str, event_id: UUID) -> None:
    await tx.run(FORGET_ATTEMPTS, consumer, event_id)


# dead letters -------------------------------------------------------------------------------------------------------
async def dead_letter_open(
    tx: Tx, consumer: str, event: OutboxEvent, *, reason: str, attempts: int
) -> DeadLetter | None:
    """None when the event was handled, or given up on, meanwhile."""
    row = await tx.row(
        OPEN, new_id(), consumer, event.id, event.name, event.org_id, event.correlation_id, reason, attempts
    )
    return None if row is None else decode(DeadLetter, row)


async def move(
    tx: Tx,
    dead_letter_id: UUID,
    *,
    to: DeadLetterState,
    note: str | None = None,
    reason: str | None = None,
    attempts: int = 0,
) -> DeadLetter:
    row = await tx.row(MOVE, dead_letter_id, to, LIFE.sources(to), note, reason, attempts)
    if row is None:
        raise Conflict(Code.STATE_MOVE_REFUSED, f"The dead letter cannot become {to} now.")
    return decode(DeadLetter, row)


async def resolve(tx: Tx, consumer: str, event_id: UUID) -> None:
    """The event is handled: so is its dead letter, if it was being replayed."""
    await tx.run(RESOLVE, consumer, event_id, LIFE.sources(DeadLetterState.RESOLVED))


async def move_overdue(tx: Tx) -> list[DeadLetter]:
    """Everything past its deadline becomes what its table says."""
    moved = []
    for state, (deadline, to) in LIFE.deadlines().items():
        moved += [decode(DeadLetter, row) for row in await tx.rows(OVERDUE, state, to, deadline)]
    return moved


async def dead_letter_get(tx: Tx, dead_letter_id: DeadLetterId) -> DeadLetter | None:
    row = await tx.row(DEAD_LETTER, dead_letter_id)
    return None if row is None else decode(DeadLetter, row)


async def dead_letter_list(
    tx: Tx, *, state: DeadLetterState | None, consumer: str | None, after: UUID, limit: int
) -> list[DeadLetter]:
    return decode_all(DeadLetter, await tx.rows(DEAD_LETTERS, after, state, consumer, limit))


async def dead_letters_waiting(tx: Tx) -> dict[DeadLetterState, int]:
    found = {DeadLetterState(row["state"]): row["letters"] for row in await tx.rows(WAITING_BY_STATE, list(WAITING))}
    return {state: found.get(state, 0) for state in WAITING}


# the auditor --------------------------------------------------------------------------------------------------------
async def progress(tx: Tx, consumer: str) -> Progress:
    row = await tx.row(PROGRESS, consumer)
    return Progress(row["checked_through"], row["complete_through"]) if row else Progress(NIL, NIL)


async def advance_checked(tx: Tx, consumer: str, through: UUID) -> None:
    await tx.run(ADVANCE_CHECKED, consumer, through, NIL)


async def advance_complete(tx: Tx, consumer: str, through: UUID) -> None:
    await tx.run(ADVANCE_COMPLETE, consumer, through)


async def consumers_forget(tx: Tx, *, known: Sequence[str]) -> list[str]:
    """Drop the books of every other consumer; who they were."""
    return [row["consumer"] for row in await tx.rows(FORGET_CONSUMERS, list(known))]


async def survey(tx: Tx, consumer: str, names: Sequence[str], *, after: UUID, before: UUID, limit: int) -> Survey:
    row = await tx.row(SURVEY, consumer, after, before, list(names), limit)
    assert row is not None  # noqa: S101 - it selects constants: there is always one row
    return Survey(row["scanned_through"], row["whole"], row["missing"])


async def events_lost(tx: Tx, ids: Sequence[EventId], *, published_before: datetime, limit: int) -> list[EventId]:
    """Those of the events that were published so long ago that they should have come."""
    if not ids:
        return []
    rows = await tx.rows(LOST, list(ids), min(ids), max(ids), published_before, limit)
    return [row["id"] for row in rows]


async def events_by_id(tx: Tx, ids: Sequence[EventId]) -> list[OutboxEvent]:
    if not ids:
        return []
    return decode_all(OutboxEvent, await tx.rows(EVENTS, list(ids), min(ids), max(ids)))


# retention ----------------------------------------------------------------------------------------------------------
async def needed_from(tx: Tx, consumers: Sequence[str]) -> UUID | None:
    """The smallest event id that somebody still needs; None when nobody needs any."""
    row = await tx.row(NEEDED_FROM, list(WAITING), list(consumers), NIL)
    needed = [value for value in (row or {}).values() if value is not None]
    return min(needed) if needed else None


async def attempts_prune(tx: Tx, *, before: datetime, limit: int) -> int:
    return await tx.run(PRUNE_ATTEMPTS, before, limit)
