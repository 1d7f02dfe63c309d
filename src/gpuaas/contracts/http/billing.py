"""Money over HTTP: balances, entries of the ledger, holds, adjustments, the books. Amounts are whole micro-units."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import PageQuery, Query, Reason, Request, Response
from gpuaas.contracts.http.inventory import Currency
from gpuaas.kit.money import DEFAULT_CURRENCY, MAX_MICROS


class AccountKind(StrEnum):
    TENANT = "tenant"
    """What an organisation has."""
    REVENUE = "revenue"
    CLEARING = "clearing"
    """What payment providers owe us."""
    CREDITS = "credits"
    """Given by rule or as a promotion."""
    ADJUSTMENTS = "adjustments"
    """Changed by hand."""
    REFUNDS = "refunds"
    UNCOLLECTIBLE = "uncollectible"


class PostingKind(StrEnum):
    TOP_UP = "top_up"
    USAGE = "usage"
    USAGE_CREDIT = "usage_credit"
    CREDIT = "credit"
    REFUND = "refund"
    DISPUTE = "dispute"
    """Taken back by a bank, on its customer's word."""
    ADJUSTMENT = "adjustment"
    REVERSAL = "reversal"


class MoneyHoldState(StrEnum):
    OPEN = "open"
    CAPTURED = "captured"
    VOIDED = "voided"
    EXPIRED = "expired"


class AdjustmentState(StrEnum):
    PROPOSED = "proposed"
    POSTED = "posted"
    REJECTED = "rejected"
    EXPIRED = "expired"


Amount = Annotated[
    int,
    msgspec.Meta(
        ge=-MAX_MICROS,
        le=MAX_MICROS,
        description="Millionths of the currency; below zero, it is taken away.",
        extra_json_schema={"not": {"const": 0}},  # its verb refuses it: a type has no word for that
    ),
]
CreditLine = Annotated[int, msgspec.Meta(ge=0, le=MAX_MICROS, description="Millionths of the currency.")]
_From = Annotated[datetime, msgspec.Meta(tz=True, description="At this instant or later.")]
_To = Annotated[datetime, msgspec.Meta(tz=True, description="Before this instant.")]
_At = Annotated[datetime, msgspec.Meta(tz=True, description="As it was then; left out: now.")]


class BalanceQuery(Query, frozen=True, kw_only=True):
    currency: Currency = DEFAULT_CURRENCY
    at: _At | None = None


class BalanceView(Response, frozen=True, kw_only=True):
    org_id: UUID
    currency: str
    balance_micros: int
    held_micros: int
    """Set aside for what runs; of the past it is not known."""
    credit_line_micros: int
    """How far below zero the balance may fall."""
    available_micros: int
    """What can be spent: balance and credit line, less what is set aside."""
    at: datetime


class LedgerFilter(Query, frozen=True, kw_only=True):
    """Which entries; all that is given must hold."""

    currency: Currency = DEFAULT_CURRENCY
    kind: PostingKind | None = None
    subject_id: UUID | None = None
    from_at: _From | None = msgspec.field(name="from", default=None)
    to_at: _To | None = msgspec.field(name="to", default=None)


class LedgerQuery(PageQuery, frozen=True, kw_only=True):
    """The same, in pages, newest first. (A struct has one base, so the fields are written again.)"""

    currency: Currency = DEFAULT_CURRENCY
    kind: PostingKind | None = None
    subject_id: UUID | None = None
    from_at: _From | None = msgspec.field(name="from", default=None)
    to_at: _To | None = msgspec.field(name="to", default=None)


class EntryView(Response, frozen=True, kw_only=True):
    transaction_id: UUID
    number: int
    """Of the account's entries, from 1 on, without a gap."""
    at: datetime
    kind: str
    amount_micros: int
    balance_micros: int
    """After this entry."""
    currency: str
    subject_id: UUID | None
    reason: str
    reverses_id: UUID | None
    actor: str


class MoneyHoldQuery(PageQuery, frozen=True, kw_only=True):
    state: MoneyHoldState | None = None


class MoneyHoldView(Response, frozen=True, kw_only=True):
    id: UUID
    currency: str
    amount_micros: int
    captured_micros: int
    subject_id: UUID | None
    reason: str
    state: MoneyHoldState
    state_since: datetime
    due_at: datetime | None
    """When it ends by itself."""
    created_at: datetime


class MoneyHoldVoid(Request, frozen=True, kw_only=True):
    reason: Reason


class AdjustmentCreate(Request, frozen=True, kw_only=True):
    amount_micros: Amount
    currency: Currency = DEFAULT_CURRENCY
    reason: Reason


class ReversalCreate(Request, frozen=True, kw_only=True):
    reason: Reason


class AdjustmentDecision(Request, frozen=True, kw_only=True):
    reason: Reason


class AdjustmentQuery(PageQuery, frozen=True, kw_only=True):
    state: AdjustmentState | None = None
    org_id: UUID | None = None


class AdjustmentView(Response, frozen=True, kw_only=True):
    id: UUID
    org_id: UUID
    currency: str
    amount_micros: int
    reverses_id: UUID | None
    """The transaction that it undoes, if it is a reversal."""
    reason: str
    state: AdjustmentState
    state_since: datetime
    due_at: datetime | None
    proposed_by: str
    decided_by: str
    decision: str
    transaction_id: UUID | None
    created_at: datetime


class CreditLineSet(Request, frozen=True, kw_only=True):
    credit_line_micros: CreditLine
    currency: Currency = DEFAULT_CURRENCY
    reason: Reason


class BookView(Response, frozen=True, kw_only=True):
    """All accounts of a kind."""

    kind: AccountKind
    currency: str
    accounts: int
    entries: int
    balance_micros: int


class Unit(StrEnum):
    MICROS = "micros"
    SECONDS = "seconds"


class Flaw(Response, frozen=True, kw_only=True):
    subject: str
    problem: str


class EquationView(Response, frozen=True, kw_only=True):
    """Two sums that have to be the same, each made from rows of its own."""

    name: str
    statement: str
    unit: Unit
    currency: str
    """Empty: seconds have none."""
    left: int
    right: int
    difference: int
    """Left less right."""
    holds: bool
    note: str
    """What is to be known of it: nothing was paid in yet, or how old a side is."""
    first: list[Flaw]
    """The first rows that differ."""


class BooksView(Response, frozen=True, kw_only=True):
    at: datetime
    books: list[BookView]
    equations: list[EquationView]


class ProofView(Response, frozen=True, kw_only=True):
    """The proof of an organisation's own books."""

    holds: bool
    at: datetime
    entries: int
    equations: list[EquationView]
    flaw_count: int
    flaws: list[Flaw]
    """The first of them."""


class BooksVerification(Response, frozen=True, kw_only=True):
    holds: bool
    at: datetime
    seconds: float
    transactions: int
    entries: int
    equations: list[EquationView]
    flaw_count: int
    flaws: list[Flaw]
    """The first of them."""
