"""What a meter owes: a pure function of its price and of the whole seconds for which its subject was usable.

Always holds: the fraction of a micro-unit is dropped once, of the total, never of a window; so what is charged in
windows, however they lie, sums to the price of the seconds."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

HOUR_SECONDS = 3_600
_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS = 1_000_000


class Span(msgspec.Struct, frozen=True):
    """A time in which a meter stood still. Without an end, it still does."""

    from_at: datetime
    until_at: datetime | None


class Billed(msgspec.Struct, frozen=True):
    """Up to which instant a meter was charged, for how many seconds, how much."""

    until_at: datetime
    seconds: int = 0
    micros: int = 0


class Charge(msgspec.Struct, frozen=True):
    """What is posted next: the difference between what is owed and what was billed. Below zero, it is a credit."""

    from_at: datetime
    until_at: datetime
    seconds: int
    micros: int


def owed_micros(micros_per_hour: int, seconds: int) -> int:
    return micros_per_hour * seconds // HOUR_SECONDS


def usable_seconds(opened_at: datetime, until_at: datetime, pauses: Iterable[Span] = ()) -> int:
    """Whole seconds from the opening to an instant, without the pauses. Where two overlap, it counts once."""
    usable, at = timedelta(0), opened_at
    for pause in sorted(pauses, key=lambda one: one.from_at):
        if pause.from_at >= until_at:
            break
        usable += max(pause.from_at - at, timedelta(0))
        at = max(at, until_at if pause.until_at is None else pause.until_at)
    usable += max(until_at - at, timedelta(0))
    return usable // _MICROSECOND // _MICROSECONDS


def counts_until(now: datetime, closed_at: datetime | None, billed_until: datetime) -> datetime:
    """The instant up to which is charged now. A clock that stepped back takes nothing back, and moves no known end."""
    return max(now, billed_until) if closed_at is None else closed_at


def charge(
    micros_per_hour: int,
    opened_at: datetime,
    closed_at: datetime | None,
    pauses: Iterable[Span],
    billed: Billed,
    now: datetime,
) -> Charge:
    """What is to be posted now, so that all that was posted is what is owed."""
    until_at = counts_until(now, closed_at, billed.until_at)
    seconds = usable_seconds(opened_at, until_at, pauses)
    return Charge(
        from_at=billed.until_at,
        until_at=until_at,
        seconds=seconds - billed.seconds,
        micros=owed_micros(micros_per_hour, seconds) - billed.micros,
    )


def lasts_seconds(available_micros: int, burn_micros_per_hour: int) -> int | None:
    """For how long a balance lasts; None: nothing burns it."""
    if burn_micros_per_hour <= 0:
        return None
    return max(available_micros, 0) * HOUR_SECONDS // burn_micros_per_hour
