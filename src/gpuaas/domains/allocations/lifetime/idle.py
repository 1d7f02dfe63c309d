"""Whether an allocation whose GPUs nobody uses is noted, warned or reclaimed: pure.

Always holds: only what is known to be unused is idle; a missing or old signal counts as use; between the warning and
the end there is the whole grace; any use before the end takes the warning back."""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """As the policy says for the allocation's project."""

    idle: timedelta
    """For how long unused, before its people are warned."""
    grace: timedelta
    """From then on until it is released."""
    percent: int
    """Up to which use of each GPU it counts as unused."""
    kept: timedelta
    """How far back what was measured can be looked at."""


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """What its nodes measured lately."""

    known: bool
    """All of its GPUs, in every sample, and there were samples."""
    percent: float
    """The highest of them."""


class Was(msgspec.Struct, frozen=True, kw_only=True):
    """What was noted before."""

    idle_since: datetime | None
    reclaim_at: datetime | None


class Act(StrEnum):
    NOTHING = "nothing"
    NOTE = "note"
    """It is unused from now on."""
    FORGET = "forget"
    """It is used: whatever was noted, or warned of, is over."""
    WARN = "warn"
    RECLAIM = "reclaim"


def busy(use: Use | None, rules: Rules) -> bool:
    return use is None or not use.known or use.percent > rules.percent


def decide(now: datetime, rules: Rules | None, use: Use | None, was: Was) -> Act:
    """No rules: idle allocations are left alone."""
    if rules is None or busy(use, rules):
        return Act.NOTHING if was.idle_since is None and was.reclaim_at is None else Act.FORGET
    if was.idle_since is None:
        return Act.NOTE
    if was.reclaim_at is None:
        return Act.WARN if now - was.idle_since >= rules.idle else Act.NOTHING
    return Act.RECLAIM if now >= was.reclaim_at else Act.NOTHING
