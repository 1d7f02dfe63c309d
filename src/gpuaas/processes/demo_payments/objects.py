"""The shapes of what the provider keeps and answers: Stripe's objects, with the fields a reader of money looks at."""

from collections.abc import Sequence
from typing import Any

from gpuaas.processes.demo_payments.book import Object, new_id

API_VERSION = "2025-03-31.basil"
TOLD = frozenset(
    {
        "charge.dispute.closed",
        "charge.dispute.created",
        "charge.refunded",
        "checkout.session.async_payment_failed",
        "checkout.session.async_payment_succeeded",
        "checkout.session.completed",
        "checkout.session.expired",
        "payment_intent.payment_failed",
        "refund.created",
        "refund.failed",
        "refund.updated",
    }
)
"""The events our webhook endpoint is signed up for."""


def new_object(kind: str, prefix: str, now: int, /, length: int = 24, **fields: Any) -> Object:
    return {"id": new_id(prefix, length), "object": kind, "created": now, "livemode": False, **fields}


def new_event(type: str, about: Object, now: int, request: dict[str, str | None] | None = None) -> Object:
    """A fact with the object as it is now; it does not change when the object does."""
    return new_object(
        "event",
        "evt_",
        now,
        api_version=API_VERSION,
        data={"object": about},
        pending_webhooks=int(type in TOLD),
        request=request or {"id": None, "idempotency_key": None},
        type=type,
    )


def new_intent(session: Object, now: int, metadata: dict[str, str], description: str | None) -> Object:
    return new_object(
        "payment_intent",
        "pi_",
        now,
        amount=session["amount_total"],
        amount_received=0,
        capture_method="automatic",
        currency=session["currency"],
        customer=session["customer"],
        description=description,
        last_payment_error=None,
        latest_charge=None,
        metadata=metadata,
        payment_method_types=session["payment_method_types"],
        status="requires_payment_method",
    )


def new_charge(intent: Object, now: int, *, method: str, **outcome: Any) -> Object:
    succeeded = outcome["status"] == "succeeded"
    return (
        new_object(
            "charge",
            "ch_" if method == "card" else "py_",
            now,
            amount=intent["amount"],
            amount_captured=intent["amount"] if succeeded else 0,
            amount_refunded=0,
            captured=succeeded,
            currency=intent["currency"],
            customer=intent["customer"],
            description=intent["description"],
            disputed=False,
            dispute=None,
            failure_code=None,
            failure_message=None,
            metadata=intent["metadata"],
            paid=succeeded,
            payment_intent=intent["id"],
            payment_method_details=(
                {"type": "card", "card": {"brand": "visa", "last4": "4242"}} if method == "card" else {"type": method}
            ),
            refunded=False,
        )
        | outcome
    )


def page_of(url: str, rows: Sequence[Object], *, has_more: bool) -> Object:
    return {"object": "list", "url": url, "has_more": has_more, "data": list(rows)}
