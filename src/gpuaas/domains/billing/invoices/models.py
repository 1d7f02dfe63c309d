"""Statements, invoices and their files."""

from datetime import date, datetime
from enum import StrEnum
from uuid import UUID

import msgspec

from gpuaas.contracts.http.invoices import StatementView
from gpuaas.kit.ids import OrgId


class Form(StrEnum):
    PDF = "pdf"
    CSV = "csv"


MEDIA = {Form.PDF: "application/pdf", Form.CSV: "text/csv; charset=utf-8"}


class Seller(msgspec.Struct, frozen=True):
    """Who sells, as it is printed: lines of text."""

    text: str


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Of what a statement is asked for."""

    org_id: OrgId
    currency: str
    from_at: datetime
    to_at: datetime


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """A month of an organisation that is over and has no invoice yet."""

    org_id: OrgId
    currency: str
    month: date


class Number(msgspec.Struct, frozen=True, kw_only=True):
    year: int
    serial: int

    def __str__(self) -> str:
        return f"{self.year}-{self.serial:06d}"


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """All that a paper says. A statement has no number."""

    number: str
    issued_at: datetime
    month: date | None
    seller: str
    statement: StatementView


class Invoice(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    org_id: OrgId
    currency: str
    month: date
    year: int
    serial: int
    opening_micros: int
    paid_in_micros: int
    used_micros: int
    used_back_micros: int
    given_micros: int
    refunded_micros: int
    corrected_micros: int
    closing_micros: int
    document: str
    issued_at: datetime

    @property
    def number(self) -> str:
        return str(Number(year=self.year, serial=self.serial))


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A file of an invoice in the store of objects."""

    invoice_id: UUID
    form: str
    digest: str
    size: int
