"""Rows of budgets, with what was spent."""

from datetime import date, datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.http.budgets import BudgetLimit
from gpuaas.kit.ids import OrgId, ProjectId


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """A budget, and what its project spent of it this month, to the second."""

    id: UUID
    org_id: OrgId
    project_id: ProjectId
    project: str
    currency: str
    soft_micros: int | None
    hard_micros: int | None
    set_by: str
    set_at: datetime
    month: date
    now: datetime
    spent_micros: int
    stops_at: datetime | None
    known: list[str]
    """Keys of the marks that were told this month."""

    @property
    def is_spent(self) -> bool:
        return self.hard_micros is not None and self.spent_micros >= self.hard_micros


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """So much of a limit is spent."""

    limit: BudgetLimit
    percent: int
    limit_micros: int
    due_at: datetime | None = None
    """When what runs is stopped for it."""

    @property
    def key(self) -> str:
        return f"{self.limit} {self.percent} {self.limit_micros}"
