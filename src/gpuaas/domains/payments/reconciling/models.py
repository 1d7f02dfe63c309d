"""What a comparison of the provider's lists with our books comes to."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.http.payments import DifferenceKind


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """What the provider says of one of its objects: taken is above zero, given back below."""

    object_id: str
    kind: str
    payment_id: UUID | None
    currency: str
    amount_micros: int


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Something that differs."""

    kind: DifferenceKind
    object_id: str
    payment_id: UUID | None
    currency: str
    ours_micros: int
    theirs_micros: int
    detail: str


class Difference(msgspec.Struct, frozen=True, kw_only=True):
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


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a comparison did."""

    began_at: datetime
    checkouts: int
    refunds: int
    disputes: int
    healed: int
    """What we had not heard of, and have made good."""
    differences: int
    """What differs still."""
    healed_objects: list[str] = []
    """The first of what was made good."""


class Sides(msgspec.Struct, frozen=True, kw_only=True):
    """The first equation: what the provider says it took for us, and what the ledger says."""

    currency: str
    provider_micros: int
    ledger_micros: int
    as_of: datetime | None
    """When the provider was last asked; None: never."""
