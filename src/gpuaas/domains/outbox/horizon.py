"""Until when what was published must have arrived: the auditor's one judgement."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec

SKEW = timedelta(seconds=5)
# Ids are made before their transaction commits, on machines whose clocks differ: older than this, no new one appears.
LATE = timedelta(minutes=15)
# Younger than this, nobody asks why an event has not been handled yet.
YOUNG = timedelta(seconds=30)


class Standing(msgspec.Struct, frozen=True):
    """How far a consumer has come in its stream."""

    waiting: int
    """Messages not yet delivered, or delivered and not yet acknowledged."""
    first_at: datetime | None
    """Birth of the oldest message the stream still has."""
    done_at: datetime | None
    """Birth of the message up to which all are acknowledged."""


def arrived_by(standing: Standing, now: datetime) -> datetime | None:
    """Published before this and not handled: lost on the way. None: nothing can be said.

    A consumer with nothing waiting has had everything. Otherwise it has had what it acknowledged, and will never get
    what the stream no longer has."""
    if standing.waiting == 0:
        return now - SKEW
    known = [at for at in (standing.first_at, standing.done_at) if at is not None]
    return max(known) - SKEW if known else None


def born_at(event_id: UUID) -> datetime:
    """The instant in a UUIDv7."""
    return datetime.fromtimestamp((event_id.int >> 80) / 1000, tz=UTC)
