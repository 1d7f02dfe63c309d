"""Events of money: stream BILLING. They carry the organisation in their envelope."""

from uuid import UUID

from gpuaas.contracts.events.base import Event, Stream


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


class MoneyHoldExpired(Event, frozen=True, kw_only=True):
    """Money was set aside for `subject_id`, and its time is over: what was left of it is free again."""

    NAME = "billing.hold_expired"
    STREAM = Stream.BILLING
    hold_id: UUID
    subject_id: UUID | None
    currency: str
    left_micros: int
