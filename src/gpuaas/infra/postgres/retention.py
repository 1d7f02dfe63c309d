"""What keeps the machinery's own tables small: months made ahead and dropped behind, old answers and rate marks deleted
in batches short enough to disturb nobody."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit import clock
from gpuaas.ports.policy import PolicyReader

MONTHS_AHEAD = 3
BATCH = 1000
MAX_BATCHES = 200
RATE_MARK_AGE = timedelta(hours=1)
# The database refuses to drop younger months, whatever it is told.
YOUNGEST_DROPPED = timedelta(days=7, hours=1)
# Every month there is costs each posting a little, so the ledger has the next one only.
LEDGER_MONTHS_AHEAD = 1
PARTITIONED = dict.fromkeys(("outbox", "inbox", "audit_log", "audit_seals", "node_health"), MONTHS_AHEAD)
PARTITIONED |= dict.fromkeys(("ledger_transactions", "ledger_entries", "usage"), LEDGER_MONTHS_AHEAD)
_PLATFORM = Sight(PLATFORM)
_NAME = "system:outbox.retention"
_ENSURE = "SELECT ensure_partitions($1, now(), $2)"
_DROP = "SELECT prune_partitions($1, $2)"
_OLD_ANSWERS = """
DELETE FROM idempotency_keys WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM idempotency_keys WHERE created_at < $1 ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED))
"""
_OLD_MARKS = """
DELETE FROM rate_marks WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM rate_marks WHERE next_at < $1 ORDER BY next_at LIMIT $2 FOR UPDATE SKIP LOCKED))
"""


class Retention:
    """How long things are kept, as policy says."""

    def __init__(self, policy: PolicyReader) -> None:
        self._policy = policy

    def events_before(self) -> datetime:
        return clock.now() - timedelta(days=self._policy.number("retention.outbox_days"))

    def answers_before(self) -> datetime:
        return clock.now() - timedelta(days=self._policy.number("retention.idempotency_days"))


async def ensure_partitions(db: Database) -> int:
    """Months ahead, for every table that is cut by month; how many were made."""
    made = 0
    for table, months in PARTITIONED.items():
        async with db.transaction(_PLATFORM, _NAME) as tx:
            made += int(await tx.value(_ENSURE, table, months))
    return made


async def drop_event_months(db: Database, before: datetime) -> int:
    """Drop months of events, and of who handled them, that lie wholly before an instant."""
    return await drop_months(db, ("outbox", "inbox"), before)


async def drop_months(db: Database, tables: Sequence[str], before: datetime) -> int:
    """Drop months of these tables that lie wholly before an instant, and before any the database would keep."""
    before = min(before, clock.now() - YOUNGEST_DROPPED)
    dropped = 0
    for table in tables:
        async with db.transaction(_PLATFORM, _NAME) as tx:
            dropped += int(await tx.value(_DROP, table, before))
    return dropped


async def prune_answers(db: Database, before: datetime) -> int:
    return await _in_batches(db, _OLD_ANSWERS, before)


async def prune_rate_marks(db: Database) -> int:
    return await _in_batches(db, _OLD_MARKS, clock.now() - RATE_MARK_AGE)


async def _in_batches(db: Database, sql: str, before: datetime) -> int:
    total = 0
    for _ in range(MAX_BATCHES):
        async with db.transaction(_PLATFORM, _NAME) as tx:
            deleted = await tx.run(sql, before, BATCH)
        total += deleted
        if deleted < BATCH:
            break
    return total
