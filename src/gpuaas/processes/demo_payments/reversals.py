"""Money going back: refunds, and disputes somebody's bank opened.

Always holds: what was refunded and what still may be never exceed what was charged."""

from gpuaas.processes.demo_payments.book import Book, Change, Object
from gpuaas.processes.demo_payments.errors import invalid, refused
from gpuaas.processes.demo_payments.objects import new_event, new_object
from gpuaas.processes.demo_payments.params import RefundCreate

REASONS = ("duplicate", "fraudulent", "requested_by_customer")


def refund_create(book: Book, asked: RefundCreate, *, pending: bool) -> tuple[Object, Change]:
    """`pending`: it is decided later, by `refund_settle`."""
    charge, now = _charge_of(book, asked), book.now()
    if asked.reason is not None and asked.reason not in REASONS:
        raise invalid(f"Invalid reason: must be one of {', '.join(REASONS)}", param="reason")
    if charge["disputed"]:
        raise refused(f"Charge {charge['id']} has been charged back; cannot issue a refund.", code="charge_disputed")
    left = charge["amount"] - charge["amount_refunded"]
    if left == 0:
        raise refused(f"Charge {charge['id']} has already been refunded.", code="charge_already_refunded")
    amount = left if asked.amount is None else asked.amount
    if amount > left:
        raise refused(
            f"Refund amount ({amount}) is greater than unrefunded amount on charge ({left})", code="amount_too_large"
        )
    made = new_object(
        "refund",
        "re_",
        now,
        amount=amount,
        charge=charge["id"],
        currency=charge["currency"],
        failure_reason=None,
        metadata=dict(asked.metadata),
        payment_intent=charge["payment_intent"],
        reason=asked.reason,
        status="pending" if pending else "succeeded",
    )
    after = _refunded(charge, amount)
    events = [new_event("refund.created", made, now), new_event("charge.refunded", after, now)]
    return made, Change(put=[made, after], events=events)


def refund_settle(book: Book, id: str, *, good: bool) -> tuple[Object, Change]:
    """A pending refund arrives, or comes back to us."""
    before, now = book.get("refund", id), book.now()
    if before["status"] != "pending":
        raise refused(f"Refund {id} is {before['status']}, not pending.", code="refund_not_pending")
    after = {**before, "status": "succeeded" if good else "failed"}
    change = Change(put=[after])
    if not good:
        after["failure_reason"] = "lost_or_stolen_card"
        change.put.append(_refunded(book.get("charge", before["charge"]), -before["amount"]))
        change.events.append(new_event("refund.failed", after, now))
    change.events.append(new_event("refund.updated", after, now))
    return after, change


def dispute_open(book: Book, charge_id: str, *, reason: str = "fraudulent") -> tuple[Object, Change]:
    charge, now = book.get("charge", charge_id), book.now()
    if charge["disputed"] or charge["status"] != "succeeded":
        raise refused(f"Charge {charge_id} cannot be disputed.", code="charge_not_disputable")
    made = new_object(
        "dispute",
        "du_",
        now,
        amount=charge["amount"] - charge["amount_refunded"],
        charge=charge_id,
        currency=charge["currency"],
        metadata={},
        payment_intent=charge["payment_intent"],
        reason=reason,
        status="needs_response",
    )
    after = {**charge, "disputed": True, "dispute": made["id"]}
    return made, Change(put=[made, after], events=[new_event("charge.dispute.created", made, now)])


def dispute_close(book: Book, id: str, *, won: bool) -> tuple[Object, Change]:
    before = book.get("dispute", id)
    if before["status"] in ("won", "lost"):
        raise refused(f"Dispute {id} is closed.", code="dispute_closed")
    after = {**before, "status": "won" if won else "lost"}
    return after, Change(put=[after], events=[new_event("charge.dispute.closed", after, book.now())])


def _refunded(charge: Object, amount: int) -> Object:
    refunded = charge["amount_refunded"] + amount
    return {**charge, "amount_refunded": refunded, "refunded": refunded == charge["amount"]}


def _charge_of(book: Book, asked: RefundCreate) -> Object:
    if (asked.charge is None) == (asked.payment_intent is None):
        raise invalid("Give one of these parameters: charge, payment_intent.", code="parameter_missing")
    if asked.charge is not None:
        charge = book.get("charge", asked.charge, param="charge")
    else:
        intent = book.get("payment_intent", asked.payment_intent or "", param="payment_intent")
        charge = book.find(intent["latest_charge"] or "") or {"status": "none"}
    if charge["status"] != "succeeded":
        raise refused("There is no successful charge to refund.", code="charge_not_refundable")
    return charge
