"""Events of payments: stream PAYMENTS. They carry the organisation in their envelope."""

from uuid import UUID

from gpuaas.contracts.events.base import Event, Stream


class WebhookStored(Event, frozen=True, kw_only=True):
    """The provider told us something; it is stored and has to be acted on."""

    NAME = "payments.webhook_stored"
    STREAM = Stream.PAYMENTS
    webhook_id: UUID


class PaymentSucceeded(Event, frozen=True, kw_only=True):
    """Paid, and in the balance."""

    NAME = "payments.succeeded"
    STREAM = Stream.PAYMENTS
    payment_id: UUID
    currency: str
    amount_micros: int
    balance_micros: int


class PaymentFailed(Event, frozen=True, kw_only=True):
    NAME = "payments.failed"
    STREAM = Stream.PAYMENTS
    payment_id: UUID
    currency: str
    amount_micros: int
    reason: str


class PaymentExpired(Event, frozen=True, kw_only=True):
    """Nobody paid in time, or it was cancelled."""

    NAME = "payments.expired"
    STREAM = Stream.PAYMENTS
    payment_id: UUID
    currency: str
    amount_micros: int


class PaymentRefunded(Event, frozen=True, kw_only=True):
    """Money of a payment goes back to whoever paid, all or a part of it."""

    NAME = "payments.refunded"
    STREAM = Stream.PAYMENTS
    payment_id: UUID
    refund_id: UUID | None
    """None: it was begun at the provider, not here."""
    currency: str
    amount_micros: int
    refunded_micros: int
    """Of the payment, in all."""
    uncovered_micros: int
    """What the organisation had spent already."""


class RefundFailed(Event, frozen=True, kw_only=True):
    """A refund did not arrive; its amount is in the balance (again)."""

    NAME = "payments.refund_failed"
    STREAM = Stream.PAYMENTS
    payment_id: UUID
    refund_id: UUID | None
    currency: str
    amount_micros: int
    reason: str


class RefundProposed(Event, frozen=True, kw_only=True):
    """A refund waits for a second operator."""

    NAME = "payments.refund_proposed"
    STREAM = Stream.PAYMENTS
    payment_id: UUID
    refund_id: UUID
    currency: str
    amount_micros: int


class PaymentDisputed(Event, frozen=True, kw_only=True):
    """A bank asks for its customer's money back; `outcome` is opened, won or lost."""

    NAME = "payments.disputed"
    STREAM = Stream.PAYMENTS
    payment_id: UUID
    outcome: str
    currency: str
    amount_micros: int
    uncovered_micros: int
    """What of it the organisation has spent already."""


class PaymentMismatched(Event, frozen=True, kw_only=True):
    """The provider took another amount or currency than was asked for; nothing was credited."""

    NAME = "payments.mismatched"
    STREAM = Stream.PAYMENTS
    payment_id: UUID
    object_id: str
    currency: str
    amount_micros: int
    taken_currency: str
    taken_micros: int
