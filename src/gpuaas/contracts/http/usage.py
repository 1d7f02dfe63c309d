"""Usage over HTTP: what was used by day, project, SKU and user, and for how long the balance lasts."""

from datetime import date, datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import Query, Response

_From = Annotated[
    datetime, msgspec.Meta(tz=True, description="Charged at this instant or later. Default: 30 days before its end.")
]
_To = Annotated[datetime, msgspec.Meta(tz=True, description="Charged before this instant. Default: now.")]


class UsageBy(StrEnum):
    DAY = "day"
    PROJECT = "project"
    SKU = "sku"
    USER = "user"


class UsageFilter(Query, frozen=True, kw_only=True):
    """Which usage; all that is given must hold."""

    from_at: _From | None = msgspec.field(name="from", default=None)
    to_at: _To | None = msgspec.field(name="to", default=None)
    project_id: UUID | None = None
    sku_id: UUID | None = None
    user_id: UUID | None = None


class UsageQuery(Query, frozen=True, kw_only=True):
    """The same, summed up. (A struct has one base, so the fields are written again.)"""

    by: UsageBy = UsageBy.DAY
    from_at: _From | None = msgspec.field(name="from", default=None)
    to_at: _To | None = msgspec.field(name="to", default=None)
    project_id: UUID | None = None
    sku_id: UUID | None = None
    user_id: UUID | None = None


class UsageLine(Response, frozen=True, kw_only=True):
    """What is summed up in it has its key; the others are null."""

    day: date | None
    project_id: UUID | None
    sku_id: UUID | None
    user_id: UUID | None
    name: str
    """Of the project, the SKU or the user; the day as text."""
    currency: str
    gpu_seconds: int
    micros: int


class UsageView(Response, frozen=True, kw_only=True):
    from_at: datetime = msgspec.field(name="from")
    to_at: datetime = msgspec.field(name="to")
    by: UsageBy
    lines: list[UsageLine]
    complete: bool
    """False: there are more lines than are shown. Ask for less, or export it."""


class RunwayView(Response, frozen=True, kw_only=True):
    """For how long the balance of a currency lasts at what runs now."""

    currency: str
    balance_micros: int
    unposted_micros: int
    """Used, and not charged yet."""
    credit_line_micros: int
    burn_micros_per_hour: int
    meters: int
    runway_seconds: int | None
    """Null: nothing that costs money runs."""
    empty_at: datetime | None


class RunwaysView(Response, frozen=True, kw_only=True):
    runways: list[RunwayView]
