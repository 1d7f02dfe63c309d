"""All SQL of the audit log. Rows are read and linked, never changed: the application's role may not."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from gpuaas.domains.audit.chain import FIELDS, Link, SealedRow
from gpuaas.domains.audit.models import Checkpoint, Flaw, Head, SealedEntry, SealState, Wanted
from gpuaas.infra.postgres.tx import Row, Tx
from gpuaas.kit.ids import floor_id

SKEW = timedelta(minutes=10)  # an id's clock is a program's, `at` is the database's
MAX_COUNTED = 100_000
_ROW = ", ".join(f"a.{field}::text" if field == "details" else f"a.{field}" for field in FIELDS)
_SEAL = "s.seq, s.version, s.prev_hash, s.hash"
# Ids in a range open only the partitions of that range; the filters themselves are on the columns.
_MATCHING = f"""
SELECT {_ROW}, {_SEAL} FROM audit_log a LEFT JOIN audit_seals s ON s.audit_id = a.id
WHERE a.id > $1 AND a.id < $2
  AND ($3::uuid IS NULL OR a.org_id = $3) AND ($4::uuid IS NULL OR a.actor_id = $4)
  AND ($5::text IS NULL OR a.action = $5) AND ($6::uuid IS NULL OR a.subject_id = $6)
  AND ($7::uuid IS NULL OR a.project_id = $7)
  AND ($8::timestamptz IS NULL OR a.at >= $8) AND ($9::timestamptz IS NULL OR a.at < $9)
"""  # noqa: S608 - made of the constants above
NEWEST = _MATCHING + "ORDER BY a.id DESC LIMIT $10"
OLDEST = _MATCHING + "ORDER BY a.id LIMIT $10"
ONE = f"""
SELECT {_ROW}, {_SEAL} FROM audit_log a LEFT JOIN audit_seals s ON s.audit_id = a.id
WHERE a.id = $1 AND ($2::uuid IS NULL OR a.org_id = $2)
"""  # noqa: S608 - made of the constants above

SEALER_LOCK = "SELECT pg_try_advisory_xact_lock(hashtextextended('audit.seal', 0))"
HEAD = "SELECT seq, hash FROM audit_head FOR UPDATE"
WAITING = f"""
SELECT {_ROW} FROM audit_unsealed u JOIN audit_log a ON a.id = u.audit_id ORDER BY u.audit_id LIMIT $1
"""  # noqa: S608 - made of the constants above
# One message links rows, takes them off the list and moves the head, which only the sealer that read it can.
SEAL = """
WITH moved AS (
    UPDATE audit_head SET seq = $6, hash = $7 WHERE seq = $8 AND hash = $9 RETURNING true
), linked AS (
    INSERT INTO audit_seals (audit_id, seq, version, prev_hash, hash)
    SELECT l.* FROM unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::bytea[], $5::bytea[]) AS l
    WHERE EXISTS (SELECT FROM moved)
), taken AS (
    DELETE FROM audit_unsealed WHERE audit_id = ANY($1) AND EXISTS (SELECT FROM moved)
)
SELECT count(*) FROM moved
"""
LAST_CHECKPOINT = """
SELECT seq, extract(epoch FROM now() - at)::float8 AS age_seconds FROM audit_checkpoints ORDER BY seq DESC LIMIT 1
"""
NOW = "SELECT now()"
ADD_CHECKPOINT = "INSERT INTO audit_checkpoints (seq, hash, at, key_id, signature) VALUES ($1, $2, $3, $4, $5)"
CHECKPOINTS = "SELECT seq, hash, at, key_id, signature FROM audit_checkpoints WHERE seq < $1 ORDER BY seq DESC LIMIT $2"
CHECKPOINTS_UP = "SELECT seq, hash, at, key_id, signature FROM audit_checkpoints WHERE seq > $1 ORDER BY seq LIMIT $2"

# Numbers may be there twice after tampering, so a batch goes on after the pair of number and row.
CHAIN = f"""
SELECT s.audit_id, {_SEAL}, {_ROW} FROM audit_seals s LEFT JOIN audit_log a ON a.id = s.audit_id
WHERE s.seq >= $1 AND (s.seq, s.audit_id) > ($1, $2) ORDER BY s.seq, s.audit_id LIMIT $3
"""  # noqa: S608 - made of the constants above
LINK_BEFORE = "SELECT seq, hash FROM audit_seals WHERE seq = $1::bigint - 1 ORDER BY audit_id LIMIT 1"
FLAWS = "SELECT subject, problem FROM invariant_19_audit_chain LIMIT $1"
STATE = """
SELECT (SELECT count(*) FROM (SELECT FROM audit_unsealed LIMIT $1) w) AS unsealed,
       coalesce((SELECT extract(epoch FROM now() - a.at) FROM audit_unsealed u JOIN audit_log a ON a.id = u.audit_id
                 ORDER BY u.audit_id LIMIT 1), 0)::float8 AS oldest_unsealed_seconds,
       (SELECT seq FROM audit_head) AS sealed_through,
       coalesce((SELECT max(seq) FROM audit_checkpoints), 0) AS checkpoint_through,
       (SELECT extract(epoch FROM now() - at)::float8 FROM audit_checkpoints ORDER BY seq DESC LIMIT 1)
           AS checkpoint_age_seconds
"""


async def newest(tx: Tx, wanted: Wanted, *, before: UUID | None, limit: int) -> list[SealedEntry]:
    low, high = _id_range(wanted)
    high = high if before is None else min(high, before)
    return [_entry(row) for row in await tx.rows(NEWEST, low, high, *_filters(wanted), limit)]


async def oldest(tx: Tx, wanted: Wanted, *, after: UUID | None, limit: int) -> list[SealedEntry]:
    low, high = _id_range(wanted)
    low = low if after is None else max(low, after)
    return [_entry(row) for row in await tx.rows(OLDEST, low, high, *_filters(wanted), limit)]


async def one(tx: Tx, audit_id: UUID, org_id: UUID | None) -> SealedEntry | None:
    row = await tx.row(ONE, audit_id, org_id)
    return None if row is None else _entry(row)


async def sealer_lock(tx: Tx) -> bool:
    """Whether this transaction is the one that seals now."""
    return bool(await tx.value(SEALER_LOCK))


async def head(tx: Tx) -> Head:
    row = await tx.row(HEAD)
    assert row is not None  # noqa: S101 # the migration put it there, and nobody may delete it
    return Head(row["seq"], row["hash"])


async def waiting(tx: Tx, limit: int) -> list[SealedRow]:
    return [_row(row) for row in await tx.rows(WAITING, limit)]


async def seal(tx: Tx, after: Head, made: list[Link]) -> bool:
    """Attach links to the head they were made for; False when it is no longer the head."""
    last = made[-1]
    moved = await tx.value(
        SEAL,
        [link.audit_id for link in made],
        [link.seq for link in made],
        [link.version for link in made],
        [link.prev_hash for link in made],
        [link.hash for link in made],
        last.seq,
        last.hash,
        after.seq,
        after.hash,
    )
    return bool(moved)


async def last_checkpoint(tx: Tx) -> tuple[int, float] | None:
    """Its number, and how many seconds old it is."""
    row = await tx.row(LAST_CHECKPOINT)
    return None if row is None else (row["seq"], row["age_seconds"])


async def now(tx: Tx) -> datetime:
    at: datetime = await tx.value(NOW)
    return at


async def add_checkpoint(tx: Tx, made: Checkpoint) -> None:
    await tx.run(ADD_CHECKPOINT, made.seq, made.hash, made.at, made.key_id, made.signature)


async def checkpoints(tx: Tx, *, before: int, limit: int) -> list[Checkpoint]:
    return [_checkpoint(row) for row in await tx.rows(CHECKPOINTS, before, limit)]


async def checkpoints_up(tx: Tx, *, after: int, limit: int) -> list[Checkpoint]:
    return [_checkpoint(row) for row in await tx.rows(CHECKPOINTS_UP, after, limit)]


async def chain(tx: Tx, *, seq: int, audit_id: UUID, limit: int) -> list[tuple[Link, SealedRow | None]]:
    """The links after a place in the chain, with their rows; None for a row that is gone."""
    return [
        (
            Link(
                audit_id=row["audit_id"],
                seq=row["seq"],
                version=row["version"],
                prev_hash=row["prev_hash"],
                hash=row["hash"],
            ),
            None if row["id"] is None else _row(row),
        )
        for row in await tx.rows(CHAIN, seq, audit_id, limit)
    ]


async def link_before(tx: Tx, seq: int) -> Head | None:
    row = await tx.row(LINK_BEFORE, seq)
    return None if row is None else Head(row["seq"], row["hash"])


async def flaws(tx: Tx, limit: int) -> list[Flaw]:
    return [Flaw(row["subject"], row["problem"]) for row in await tx.rows(FLAWS, limit)]


async def state(tx: Tx) -> SealState:
    row = await tx.row(STATE, MAX_COUNTED)
    return SealState(**dict(row or {}))


def _id_range(wanted: Wanted) -> tuple[UUID, UUID]:
    low, high = UUID(int=0), UUID(int=2**128 - 1)
    if wanted.from_at is not None and wanted.from_at.year > 1970:
        low = floor_id(wanted.from_at - SKEW)
    if wanted.to_at is not None and 1970 < wanted.to_at.year < 9999:
        high = floor_id(wanted.to_at + SKEW)
    return low, high


def _filters(wanted: Wanted) -> tuple[Any, ...]:
    return (
        wanted.org_id,
        wanted.actor_id,
        wanted.action,
        wanted.subject_id,
        wanted.project_id,
        wanted.from_at,
        wanted.to_at,
    )


def _row(row: Row) -> SealedRow:
    return SealedRow(**{field: row[field] for field in FIELDS})


def _entry(row: Row) -> SealedEntry:
    return SealedEntry(**dict(row))


def _checkpoint(row: Row) -> Checkpoint:
    return Checkpoint(**dict(row))
