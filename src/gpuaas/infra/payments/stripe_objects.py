"""Stripe's objects in our words. Only the fields we use are read; what else is in them may change as it likes."""

from typing import Any
from uuid import UUID

import msgspec

from gpuaas.ports.payments import Checkout, Dispute, Notice, NoticeUnreadable, Refunding, Refusal

_CLOSED = frozenset({"won", "lost", "warning_closed", "prevented"})
_NOT_PAID_BACK = frozenset({"failed", "canceled"})
MAX_ID = 255
MAX_REASON = 300


class _Session(msgspec.Struct, frozen=True):
    id: str
    amount_total: int | None = None
    currency: str | None = None
    metadata: dict[str, str] | None = None
    payment_intent: str | None = None
    payment_status: str = "unpaid"
    status: str | None = None
    url: str | None = None
    created: int = 0


class _Refund(msgspec.Struct, frozen=True):
    id: str
    amount: int
    currency: str
    payment_intent: str | None = None
    status: str | None = None
    failure_reason: str | None = None
    metadata: dict[str, str] | None = None
    created: int = 0


class _Dispute(msgspec.Struct, frozen=True):
    id: str
    amount: int
    currency: str
    status: str
    payment_intent: str | None = None
    created: int = 0


class _Refunds(msgspec.Struct, frozen=True):
    data: list[_Refund] = []


class _Charge(msgspec.Struct, frozen=True):
    id: str
    refunds: _Refunds | None = None


class _PaymentError(msgspec.Struct, frozen=True):
    message: str | None = None


class _Intent(msgspec.Struct, frozen=True):
    id: str
    last_payment_error: _PaymentError | None = None
    metadata: dict[str, str] | None = None


class _Data(msgspec.Struct, frozen=True):
    object: msgspec.Raw


class _Event(msgspec.Struct, frozen=True):
    id: str
    type: str
    data: _Data


class _Named(msgspec.Struct, frozen=True):
    id: str = ""


def checkout(given: Any, *, failed: bool = False) -> Checkout:
    one = msgspec.convert(given, _Session)
    return Checkout(
        id=one.id,
        # Not client_reference_id: whoever follows a payment link may write there what he likes.
        payment_id=_uuid((one.metadata or {}).get("payment_id")),
        intent_id=one.payment_intent,
        url=one.url or "",
        cents=one.amount_total or 0,
        currency=(one.currency or "").upper(),
        open=one.status == "open" and not failed,
        expired=one.status == "expired",
        paid=one.payment_status == "paid",
        failed=failed,
        created_at=one.created,
    )


def refunding(given: Any) -> Refunding:
    one = msgspec.convert(given, _Refund)
    return Refunding(
        id=one.id,
        refund_id=_uuid((one.metadata or {}).get("refund_id")),
        intent_id=one.payment_intent,
        cents=one.amount,
        currency=one.currency.upper(),
        failed=one.status in _NOT_PAID_BACK,
        reason=(one.failure_reason or "")[:MAX_REASON],
        created_at=one.created,
    )


def dispute(given: Any) -> Dispute:
    one = msgspec.convert(given, _Dispute)
    return Dispute(
        id=one.id,
        intent_id=one.payment_intent,
        cents=one.amount,
        currency=one.currency.upper(),
        closed=one.status in _CLOSED,
        lost=one.status == "lost",
        created_at=one.created,
    )


def is_inquiry(given: Any) -> bool:
    """A bank that only asks has taken nothing."""
    return str(given.get("status", "")).startswith("warning_")


def notice(body: bytes) -> Notice:
    try:
        event = msgspec.json.decode(body, type=_Event)
        given = msgspec.json.decode(event.data.object)
        named = msgspec.convert(given, _Named)
        if not 0 < len(event.id) <= MAX_ID or len(event.type) > MAX_ID or len(named.id) > MAX_ID:
            raise NoticeUnreadable("its names are empty or too long")
        return Notice(event_id=event.id, type=event.type, object_id=named.id, about=_about(event.type, given))
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise NoticeUnreadable(str(error)) from error


def _about(kind: str, given: Any) -> list[Checkout | Refunding | Dispute | Refusal]:
    if kind.startswith("checkout.session."):
        return [checkout(given, failed=kind.endswith(".async_payment_failed"))]
    if kind.startswith("charge.dispute."):
        return [] if is_inquiry(given) else [dispute(given)]
    if kind.startswith("refund.") or kind == "charge.refund.updated":
        return [refunding(given)]
    if kind == "charge.refunded":
        # Newer versions of Stripe's API leave the list out; then each refund is told by an event of its own.
        listed = msgspec.convert(given, _Charge).refunds
        return [refunding(msgspec.to_builtins(one)) for one in (listed.data if listed else [])]
    if kind == "payment_intent.payment_failed":
        return [_refusal(given)]
    return []


def _refusal(given: Any) -> Refusal:
    one = msgspec.convert(given, _Intent)
    said = one.last_payment_error.message if one.last_payment_error else None
    payment_id = _uuid((one.metadata or {}).get("payment_id"))
    return Refusal(intent_id=one.id, payment_id=payment_id, reason=(said or "the bank refused it")[:MAX_REASON])


def _uuid(text: str | None) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        return None
