"""What comes of what the provider says."""

from enum import StrEnum

import msgspec

from gpuaas.domains.payments.checkouts.models import Payment
from gpuaas.kit.ids import TransactionId


class Seen(StrEnum):
    DONE = "done"
    """It is as the provider says: now, or it was already."""
    EARLY = "early"
    """It goes back, and we have not heard yet that it was paid."""
    UNKNOWN = "unknown"
    """It is nothing of ours."""
    DIFFERS = "differs"
    """It is not what was asked for: somebody has to look."""


class Source(StrEnum):
    NOTICE = "notice"
    ANSWER = "answer"
    RECONCILIATION = "reconciliation"


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    object_id: str
    effect: str
    payment: Payment
    amount_micros: int
    source: Source
    transaction_id: TransactionId | None = None


class Refunded(msgspec.Struct, frozen=True, kw_only=True):
    """What a refund took."""

    amount_micros: int
    transaction_id: TransactionId


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """Money that goes back: what of it the organisation did not have any more is ours to lose."""

    transaction_id: TransactionId
    uncovered_micros: int
