"""Times that papers are about: months are UTC, and a time has two ends that make sense."""

from datetime import UTC, date, datetime, timedelta

LONGEST = timedelta(days=800)
FARTHEST = timedelta(days=3653)


def month_of(month: date) -> tuple[datetime, datetime]:
    """From its first instant to that of the month after."""
    begins = datetime(month.year, month.month, 1, tzinfo=UTC)
    return begins, (begins + timedelta(days=32)).replace(day=1)


def ends_of(from_at: datetime | None, to_at: datetime | None, *, now: datetime) -> tuple[datetime, datetime]:
    """Both ends: the month until its end, unless said otherwise."""
    until = to_at or max(now, from_at or now)
    until = until.astimezone(UTC)
    since = from_at or (until - timedelta(microseconds=1)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return since.astimezone(UTC), until


def wrong_with(since: datetime, until: datetime, *, now: datetime) -> tuple[str, str] | None:
    """Which end, and why; None: nothing."""
    for name, at in (("from", since), ("to", until)):
        if abs(at - now) > FARTHEST:
            return name, "it is more than ten years away"
    if since > until:
        return "from", "it lies after the end"
    if until - since > LONGEST:
        return "from", f"it lies more than {LONGEST.days} days before the end"
    return None
