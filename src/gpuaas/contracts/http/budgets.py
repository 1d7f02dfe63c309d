"""Budgets of projects over HTTP: what may be spent in a calendar month (UTC). Amounts are whole micro-units."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import PageQuery, Request, Response
from gpuaas.contracts.http.inventory import Currency
from gpuaas.kit.money import DEFAULT_CURRENCY, MAX_MICROS


class BudgetLimit(StrEnum):
    SOFT = "soft"
    """Told of, at 50, 80 and 100 per cent."""
    HARD = "hard"
    """Reached, no new allocations in the project, and after billing.budget_grace_minutes what runs is stopped."""


_Soft = Annotated[
    int, msgspec.Meta(ge=1, le=MAX_MICROS, description="Told at 50, 80 and 100 per cent of it; null: never.")
]
_Hard = Annotated[
    int, msgspec.Meta(ge=1, le=MAX_MICROS, description="More than this is not spent; null: there is no such limit.")
]


class BudgetSet(Request, frozen=True, kw_only=True):
    project_id: UUID
    soft_micros: _Soft | None = None
    hard_micros: _Hard | None = None
    currency: Currency = DEFAULT_CURRENCY


class BudgetQuery(PageQuery, frozen=True, kw_only=True):
    project_id: UUID | None = None


class BudgetView(Response, frozen=True, kw_only=True):
    id: UUID
    project_id: UUID
    project: str
    """Its name."""
    currency: str
    month: str
    """The one that is counted: 2026-01, by UTC."""
    soft_micros: int | None
    hard_micros: int | None
    spent_micros: int
    """In this month, to the second, charged or not."""
    percent: int
    """Of the soft limit; of the hard one, if there is no soft one."""
    spent: bool
    """The hard limit is reached: no new allocations."""
    stops_at: datetime | None
    """When what runs in the project is stopped, because the hard limit was reached."""
    set_by: str
    set_at: datetime
