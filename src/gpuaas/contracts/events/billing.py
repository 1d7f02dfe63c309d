"""Events of money: stream BILLING. They carry the organisation in their envelope."""

from datetime import datetime
from uuid import UUID

from gpuaas.contracts.events.base import Event, Stream
from gpuaas.contracts.http.budgets import BudgetLimit
from gpuaas.contracts.http.standing import Rung


class BalanceAdjusted(Event, frozen=True, kw_only=True):
    """An operator changed a balance, or reversed a transaction; the reason is in the ledger."""

    NAME = "billing.balance_adjusted"
    STREAM = Stream.BILLING
    adjustment_id: UUID
    transaction_id: UUID
    currency: str
    amount_micros: int
    balance_micros: int


class AdjustmentProposed(Event, frozen=True, kw_only=True):
    """An adjustment waits for a second operator."""

    NAME = "billing.adjustment_proposed"
    STREAM = Stream.BILLING
    adjustment_id: UUID
    currency: str
    amount_micros: int


class FaultCredited(Event, frozen=True, kw_only=True):
    """Hardware of an allocation failed, and its organisation was given what the rule says. Its subject is the
    allocation; told once for each fault and allocation."""

    NAME = "billing.fault_credited"
    STREAM = Stream.BILLING
    allocation_id: UUID
    project_id: UUID
    fault_id: UUID
    currency: str
    amount_micros: int
    reason: str


class MoneyHoldExpired(Event, frozen=True, kw_only=True):
    """Money was set aside for `subject_id`, and its time is over: what was left of it is free again."""

    NAME = "billing.hold_expired"
    STREAM = Stream.BILLING
    hold_id: UUID
    subject_id: UUID | None
    currency: str
    left_micros: int


class StandingChanged(Event, frozen=True, kw_only=True):
    """An organisation came to another rung of the ladder, down or back. Its subject is the organisation.

    At `due_at` the next rung follows, unless money comes. One event for each change, in the change's transaction."""

    NAME = "billing.standing_changed"
    STREAM = Stream.BILLING
    currency: str
    was: Rung
    rung: Rung
    due_at: datetime | None
    balance_micros: int
    """Less what was used and is not charged yet."""
    runway_seconds: int | None
    """How long it lasts at what runs now; none: nothing runs."""


class StandingCountdown(Event, frozen=True, kw_only=True):
    """Half of the time until the next rung is over, or nine tenths of it; its subject is the organisation."""

    NAME = "billing.countdown"
    STREAM = Stream.BILLING
    currency: str
    rung: Rung
    next_rung: Rung
    due_at: datetime
    seconds_left: int


class BudgetReached(Event, frozen=True, kw_only=True):
    """A project spent this much of a limit of its budget. Its subject is the project.

    Told once for each percentage, limit and month. Of a hard limit that is reached, `due_at` says when what runs in the
    project is stopped."""

    NAME = "billing.budget_reached"
    STREAM = Stream.BILLING
    project_id: UUID
    currency: str
    month: str
    """2026-01, by UTC."""
    limit: BudgetLimit
    percent: int
    spent_micros: int
    limit_micros: int
    due_at: datetime | None
