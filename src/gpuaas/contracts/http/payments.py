"""Payments over HTTP: topping up, what became of each, refunds, and where the provider and we differ."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import OneTime, PageQuery, Reason, Request, Response, ShownOnce
from gpuaas.contracts.http.billing import EquationView
from gpuaas.contracts.http.inventory import Currency
from gpuaas.kit.money import DEFAULT_CURRENCY, MAX_MICROS


class PaymentState(StrEnum):
    CREATED = "created"
    """Asked for; the provider has no page for it yet."""
    OPEN = "open"
    """It can be paid, at its url."""
    SUCCEEDED = "succeeded"
    """Paid, and in the balance."""
    PARTIALLY_REFUNDED = "partially_refunded"
    REFUNDED = "refunded"
    DISPUTED = "disputed"
    """The bank takes it back, or has."""
    FAILED = "failed"
    EXPIRED = "expired"
    FAILED_RECONCILE = "failed_reconcile"
    """The provider took another amount or currency than was asked for: somebody has to look."""


class RefundState(StrEnum):
    PROPOSED = "proposed"
    """It waits for a second operator."""
    REQUESTED = "requested"
    """The provider is being asked."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REJECTED = "rejected"
    EXPIRED = "expired"


PaidAmount = Annotated[
    int, msgspec.Meta(ge=1, le=MAX_MICROS, description="Millionths of the currency, in whole hundredths of it.")
]


class PaymentCreate(Request, frozen=True, kw_only=True):
    amount_micros: PaidAmount
    currency: Currency = DEFAULT_CURRENCY


class PaymentQuery(PageQuery, frozen=True, kw_only=True):
    state: PaymentState | None = None


class PaymentAdminQuery(PageQuery, frozen=True, kw_only=True):
    state: PaymentState | None = None
    org_id: UUID | None = None


class PaymentView(Response, frozen=True, kw_only=True):
    id: UUID
    org_id: UUID
    currency: str
    amount_micros: int
    state: PaymentState
    state_since: datetime
    due_at: datetime | None
    """When it ends by itself, if nothing happens: later than its page closes, for what was paid in the last minute."""
    expires_at: datetime
    """When its page closes."""
    url: str
    """Where it is paid; empty when it cannot be."""
    refunded_micros: int
    disputed_micros: int
    """What the bank has taken back for good."""
    failure: str
    asked_by: str
    provider: str
    session_id: str | None
    """The provider's own name for it."""
    transaction_id: UUID | None
    """In the ledger."""
    created_at: datetime
    paid_at: datetime | None
    taken_micros: int | None
    """What the provider took, where that is not what was asked for."""
    taken_currency: str
    accept_by: str
    """Which operator would have that credited; above a limit, a second one has to agree."""


class PaymentAccept(Request, frozen=True, kw_only=True):
    reason: Reason


class PortalView(ShownOnce, frozen=True, kw_only=True):
    """Where an organisation's people see and change how they pay, at the provider. Whoever has the url is let in."""

    url: OneTime


class RefundCreate(Request, frozen=True, kw_only=True):
    amount_micros: PaidAmount | None = None
    """Left out: all that is left of the payment."""
    reason: Reason


class RefundDecision(Request, frozen=True, kw_only=True):
    reason: Reason


class RefundQuery(PageQuery, frozen=True, kw_only=True):
    state: RefundState | None = None
    org_id: UUID | None = None
    payment_id: UUID | None = None


class RefundView(Response, frozen=True, kw_only=True):
    id: UUID
    org_id: UUID
    payment_id: UUID
    currency: str
    amount_micros: int
    reason: str
    state: RefundState
    state_since: datetime
    due_at: datetime | None
    failure: str
    asked_by: str
    decided_by: str
    decision: str
    provider_refund_id: str | None
    transaction_id: UUID | None
    created_at: datetime


class DifferenceKind(StrEnum):
    AMOUNT = "amount"
    """The provider took another amount or currency than was asked for."""
    NOT_OURS = "not_ours"
    """The provider has it, and we know nothing of it."""
    NOT_THERE = "not_there"
    """We have it, and the provider does not."""
    STUCK = "stuck"
    """Both know it, and disagree about what became of it."""


class DifferenceQuery(PageQuery, frozen=True, kw_only=True):
    settled: Annotated[bool, msgspec.Meta(description="Those that are no more, too.")] = False


class DifferenceView(Response, frozen=True, kw_only=True):
    id: UUID
    kind: DifferenceKind
    object_id: str
    payment_id: UUID | None
    currency: str
    ours_micros: int
    theirs_micros: int
    detail: str
    found_at: datetime
    seen_at: datetime
    settled_at: datetime | None


class ReconcileReport(Response, frozen=True, kw_only=True):
    """What a comparison of everything came to: both sides of each equation, what differs, and what was made good."""

    holds: bool
    at: datetime
    seconds: float
    provider: str
    """Which one was asked; none: there is none here, so only our own books were compared."""
    checkouts: int
    refunds: int
    disputes: int
    healed: int
    """What the provider knew, we had not heard of, and is made good now."""
    healed_objects: list[str]
    """The first of them, as the provider calls them."""
    equations: list[EquationView]
    difference_count: int
    differences: list[DifferenceView]
    """The newest of them."""
