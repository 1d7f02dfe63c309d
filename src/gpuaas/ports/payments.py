"""What we ask of a payment provider, and what it tells us. Amounts are in hundredths, as providers count.

Always holds: whatever changes something there carries a key made of our ids, so that asking again after an answer that
was lost changes nothing more."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Protocol
from uuid import UUID

import msgspec

from gpuaas.kit.errors import Conflict


class CheckoutWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A page on which a payment can be paid. The same payment is asked for with the same words."""

    payment_id: UUID
    org_id: UUID
    customer_id: str
    cents: int
    currency: str
    description: str
    return_url: str
    expires_at: datetime


class Checkout(msgspec.Struct, frozen=True, kw_only=True):
    """A page, as the provider sees it."""

    id: str
    payment_id: UUID | None
    """The payment of ours that it says it is for."""
    intent_id: str | None
    url: str
    cents: int
    currency: str
    open: bool
    expired: bool
    """Closed, and nobody paid."""
    paid: bool
    failed: bool = False
    """Somebody tried, and the bank refused for good."""
    created_at: int = 0


class Refunding(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    refund_id: UUID | None
    """The refund of ours that it says it is for."""
    intent_id: str | None
    cents: int
    currency: str
    failed: bool
    reason: str = ""
    created_at: int = 0


class Dispute(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    intent_id: str | None
    cents: int
    currency: str
    closed: bool
    lost: bool
    created_at: int = 0


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A try to pay that the bank refused; the payer may try again."""

    intent_id: str
    payment_id: UUID | None
    reason: str


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What the provider says by itself: which event, and what it is about; nothing that concerns us: an empty list."""

    event_id: str
    type: str
    object_id: str
    about: list[Checkout | Refunding | Dispute | Refusal]


class NoticeUnreadable(ValueError):
    """It has not the shape the provider's notices have."""


class CustomerUnknown(Conflict):
    """The provider does not know the customer it is asked about: it was deleted, or is of another account there."""


class PaymentProvider(Protocol):
    """Raises Unavailable when the outcome is not known, and asking again with the same words is right; Conflict when
    the provider refused."""

    name: str

    async def customer_make(self, org_id: UUID, *, instead_of: str = "") -> str:
        """The provider's name for an organisation; another one than that which it does not know any more."""
        ...

    async def checkout_make(self, wanted: CheckoutWanted) -> Checkout: ...

    async def checkout_get(self, checkout_id: str) -> Checkout: ...

    async def checkout_expire(self, checkout_id: str) -> Checkout:
        """Close the page; one that is not open stays what it is, and is told."""
        ...

    async def portal_open(self, customer_id: str, return_url: str) -> str: ...

    async def refund_make(self, refund_id: UUID, intent_id: str, cents: int) -> Refunding: ...

    def checkouts(self, since: datetime) -> AsyncIterator[Checkout]: ...

    def refunds(self, since: datetime) -> AsyncIterator[Refunding]: ...

    def disputes(self, since: datetime) -> AsyncIterator[Dispute]: ...

    def read(self, body: bytes) -> Notice:
        """What a notice says; NoticeUnreadable when it is none."""
        ...
