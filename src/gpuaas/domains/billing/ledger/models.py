"""What is posted, what is set aside, and the rows that come of it. Amounts are whole micro-units of the currency."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.http.billing import AccountKind, MoneyHoldState, PostingKind
from gpuaas.kit.ids import MoneyHoldId, OrgId, TransactionId
from gpuaas.kit.money import DEFAULT_CURRENCY


class Posting(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction to be: the legs sum to zero; below zero, money is taken from the account."""

    kind: PostingKind
    key: str
    """One posting for each kind and key; asked again, the answer is the first one's."""
    org_id: OrgId | None
    """Whose the leg `tenant` is; none for what only the platform's accounts are about."""
    legs: Mapping[AccountKind, int]
    currency: str = DEFAULT_CURRENCY
    subject_id: UUID | None = None
    reason: str = ""
    reverses_id: TransactionId | None = None


def between(amount_micros: int, counter: AccountKind) -> dict[AccountKind, int]:
    """The two legs of most postings: the organisation gets the amount, an account of the platform gives it."""
    return {AccountKind.TENANT: amount_micros, counter: -amount_micros}


class Posted(msgspec.Struct, frozen=True, kw_only=True):
    transaction_id: TransactionId
    balance_micros: int | None
    """Of the organisation, after it."""
    replayed: bool
    """It was posted before, under the same key."""


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """One of many: the organisation gets the amount (below zero: pays it)."""

    key: str
    org_id: OrgId
    amount_micros: int
    subject_id: UUID | None = None
    reason: str = ""


class Charged(msgspec.Struct, frozen=True, kw_only=True):
    place: int
    """Which of those asked for, from 1 on."""
    transaction_id: TransactionId | None
    """None: the balance does not allow all that was asked of this organisation, and nothing of it was posted."""
    replayed: bool


class HoldWanted(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    org_id: OrgId
    amount_micros: int
    until: datetime
    """When it ends by itself."""
    currency: str = DEFAULT_CURRENCY
    subject_id: UUID | None = None
    reason: str = ""


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    kind: PostingKind
    key: str
    amount_micros: int
    counter: AccountKind = AccountKind.REVENUE
    last: bool = True
    """The rest is free again; otherwise it stays set aside."""
    reason: str = ""


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    id: MoneyHoldId
    org_id: OrgId
    account_id: UUID
    currency: str
    key: str
    amount_micros: int
    captured_micros: int
    subject_id: UUID | None
    reason: str
    state: MoneyHoldState
    state_since: datetime
    due_at: datetime | None
    created_at: datetime

    @property
    def left_micros(self) -> int:
        return self.amount_micros - self.captured_micros


class Balance(msgspec.Struct, frozen=True, kw_only=True):
    org_id: OrgId
    currency: str
    balance_micros: int
    held_micros: int
    floor_micros: int
    at: datetime

    @property
    def available_micros(self) -> int:
        return self.balance_micros - self.held_micros - self.floor_micros


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A leg with its transaction, as its organisation sees it."""

    id: TransactionId
    number: int
    at: datetime
    kind: str
    amount_micros: int
    balance_micros: int
    currency: str
    subject_id: UUID | None
    reason: str
    reverses_id: TransactionId | None
    actor: str


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    id: TransactionId
    at: datetime
    kind: str
    key: str
    org_id: OrgId | None
    currency: str
    subject_id: UUID | None
    reason: str
    reverses_id: TransactionId | None
    actor: str
    correlation_id: str


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries of an organisation are asked for."""

    org_id: OrgId
    currency: str
    kind: PostingKind | None = None
    subject_id: UUID | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None
