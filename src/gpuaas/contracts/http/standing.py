"""How an organisation stands with its money over HTTP: the ladder from good to released, and what stops it."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import Reason, Request, Response
from gpuaas.contracts.http.inventory import Currency
from gpuaas.kit.money import DEFAULT_CURRENCY

_Until = Annotated[datetime, msgspec.Meta(tz=True, description="Nothing is stopped or released before; null: at once.")]


class Rung(StrEnum):
    """From `empty` on, each lasts for as long as a policy says, and the next one follows. Money leads back at once."""

    GOOD = "good"
    LOW = "low"
    """What it has lasts for less than billing.low_runway_hours."""
    EMPTY = "empty"
    """Nothing is left: no new allocations; after billing.stop_minutes what runs is stopped."""
    STOPPED = "stopped"
    """What ran is stopped and kept; after billing.grace_hours it is released."""
    RELEASED = "released"


class StandingView(Response, frozen=True, kw_only=True):
    currency: str
    rung: Rung
    since: datetime | None
    """Null: it was never otherwise."""
    next_rung: Rung | None
    """What follows at `due_at`, unless money comes."""
    due_at: datetime | None
    paused_until: datetime | None
    """An operator stopped the ladder until then."""
    balance_micros: int
    unposted_micros: int
    """Used, and not charged yet."""
    credit_line_micros: int
    spendable_micros: int
    """Balance and credit line, less what is not charged yet. What is set aside counts: it is for what runs."""
    burn_micros_per_hour: int
    runway_seconds: int | None
    """For how long that lasts at what runs now; null: nothing runs."""
    advice: str
    """What happens next, and how to stop it."""


class StandingsView(Response, frozen=True, kw_only=True):
    org_id: UUID
    standings: list[StandingView]
    """Of each currency in which something was paid or used; of the usual one in any case."""


class StandingPause(Request, frozen=True, kw_only=True):
    until: _Until | None
    currency: Currency = DEFAULT_CURRENCY
    reason: Reason
