"""Statements and invoices over HTTP: what became of a balance in a time, and why. Amounts are whole micro-units."""

from datetime import date, datetime
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import PageQuery, Query, Response
from gpuaas.contracts.http.inventory import Currency
from gpuaas.kit.money import DEFAULT_CURRENCY

_From = Annotated[
    datetime, msgspec.Meta(tz=True, description="Posted at this instant or later. Default: the beginning of the month.")
]
_To = Annotated[datetime, msgspec.Meta(tz=True, description="Posted before this instant. Default: now.")]


class StatementQuery(Query, frozen=True, kw_only=True):
    currency: Currency = DEFAULT_CURRENCY
    from_at: _From | None = msgspec.field(name="from", default=None)
    to_at: _To | None = msgspec.field(name="to", default=None)


class StatementSums(Response, frozen=True, kw_only=True):
    """What the ledger added to the balance, by what it was for. They and the opening balance sum to the closing one."""

    paid_in_micros: int
    used_micros: int
    """Below zero: it was taken."""
    used_back_micros: int
    """Given back of what was charged for use: it was not usable after all."""
    given_micros: int
    refunded_micros: int
    corrected_micros: int
    """By hand, with a reason; reversals, too."""


class UsageCharge(Response, frozen=True, kw_only=True):
    """All use of a project, SKU and price version: GPU seconds × price, rounded down once per allocation."""

    project: str
    project_title: str
    cost_centre: str
    sku: str
    price_id: UUID
    micros_per_gpu_hour: int
    allocations: int
    gpu_seconds: int
    micros: int


class StatementEntry(Response, frozen=True, kw_only=True):
    """Anything else that changed the balance."""

    transaction_id: UUID
    at: datetime
    kind: str
    subject_id: UUID | None
    reason: str
    micros: int


class UnusableTime(Response, frozen=True, kw_only=True):
    """When something was not usable, so that it was not charged, and why."""

    allocation_id: UUID
    project: str
    sku: str
    from_at: datetime = msgspec.field(name="from")
    until_at: datetime | None = msgspec.field(name="until")
    """Null: it still is not."""
    reason: str
    seconds: int
    """Of it within the statement's time."""
    micros: int
    """What they would have cost."""


class StatementView(Response, frozen=True, kw_only=True):
    org_id: UUID
    org_name: str
    org_title: str
    currency: str
    from_at: datetime = msgspec.field(name="from")
    to_at: datetime = msgspec.field(name="to")
    opening_micros: int
    sums: StatementSums
    closing_micros: int
    usage: list[UsageCharge]
    entries: list[StatementEntry]
    unusable: list[UnusableTime]
    left_out: int
    """Entries that are in the sums, and were too many to list: `billing ledger` has them."""


class InvoiceListQuery(PageQuery, frozen=True, kw_only=True):
    currency: Currency | None = None


class InvoiceView(Response, frozen=True, kw_only=True):
    id: UUID
    number: str
    org_id: UUID
    currency: str
    month: date
    """Its first day; months are UTC."""
    used_micros: int
    """What was charged for use in the month, less what went back."""
    opening_micros: int
    closing_micros: int
    issued_at: datetime


class InvoiceDetail(Response, frozen=True, kw_only=True):
    """As it was issued."""

    invoice: InvoiceView
    seller: str
    statement: StatementView
