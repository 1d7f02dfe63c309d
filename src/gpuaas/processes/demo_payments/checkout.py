"""Customers, checkout sessions and what becomes of them: paid, declined, paid later by a bank, expired.

Always holds: a session is paid at most once; each step is one change, with its events in it."""

from typing import Any

from gpuaas.processes.demo_payments.book import Book, Change, Due, Object
from gpuaas.processes.demo_payments.errors import invalid, refused
from gpuaas.processes.demo_payments.objects import new_charge, new_event, new_intent, new_object, page_of
from gpuaas.processes.demo_payments.params import LARGEST_AMOUNT, CheckoutCreate, CustomerWrite, LineItem, PortalCreate

SHORTEST_SECONDS = 30 * 60
LONGEST_SECONDS = 24 * 3600
SLACK_SECONDS = 60
"""The sender's clock need not be exactly ours."""
PORTAL_SECONDS = 3600
SESSION_PLACE = "{CHECKOUT_SESSION_ID}"


def customer_create(book: Book, asked: CustomerWrite) -> tuple[Object, Change]:
    fields = {name: getattr(asked, name) for name in ("email", "name", "description", "phone", "metadata")}
    made = new_object("customer", "cus_", book.now(), length=14, balance=0, currency=None, delinquent=False, **fields)
    return made, Change(put=[made])


def customer_update(book: Book, id: str, asked: CustomerWrite) -> tuple[Object, Change]:
    before = book.get("customer", id)
    given = {name: getattr(asked, name) for name in ("email", "name", "description", "phone")}
    changed = {
        **before,
        **{name: value for name, value in given.items() if value is not None},
        "metadata": {name: value for name, value in (before["metadata"] | asked.metadata).items() if value},
    }
    return changed, Change(put=[changed])


def session_create(book: Book, asked: CheckoutCreate, base_url: str) -> tuple[Object, Change]:
    now = book.now()
    if asked.mode != "payment":
        raise invalid("This demo only takes mode=payment.", code="parameter_invalid", param="mode")
    if asked.ui_mode not in (None, "hosted", "hosted_page"):
        raise invalid("This demo only has the hosted page.", code="parameter_invalid", param="ui_mode")
    expires_at = asked.expires_at if asked.expires_at is not None else now + LONGEST_SECONDS
    if not now + SHORTEST_SECONDS - SLACK_SECONDS <= expires_at <= now + LONGEST_SECONDS + SLACK_SECONDS:
        raise invalid(
            "The `expires_at` timestamp must be between 30 minutes and 24 hours from Checkout Session creation.",
            param="expires_at",
        )
    if asked.customer is not None:
        if asked.customer_email is not None:
            raise invalid("You may only specify one of these parameters: customer, customer_email.")
        book.get("customer", asked.customer, param="customer")
    total, currency = _total(asked.line_items)
    intent = asked.payment_intent_data
    made = new_object(
        "checkout.session",
        "cs_test_",
        now,
        length=58,
        amount_subtotal=total,
        amount_total=total,
        cancel_url=asked.cancel_url,
        client_reference_id=asked.client_reference_id,
        currency=currency,
        customer=asked.customer,
        customer_details=None,
        customer_email=asked.customer_email,
        expires_at=expires_at,
        metadata=dict(asked.metadata),
        mode="payment",
        payment_intent=None,
        payment_method_types=list(asked.payment_method_types) or ["card"],
        payment_status="unpaid",
        status="open",
        success_url=asked.success_url,
        ui_mode="hosted",
        # What only we read: it is not part of an answer.
        _lines=[_line(item, currency) for item in asked.line_items],
        _intent_metadata=dict(intent.metadata) if intent else {},
        _description=intent.description if intent else None,
    )
    made["url"] = f"{base_url}/pay/{made['id']}"
    return made, Change(put=[made])


def portal_create(book: Book, asked: PortalCreate, base_url: str) -> tuple[Object, Change]:
    book.get("customer", asked.customer, param="customer")
    made = new_object(
        "billing_portal.session",
        "bps_",
        book.now(),
        length=40,
        customer=asked.customer,
        return_url=asked.return_url,
    )
    made["url"] = f"{base_url}/portal/{made['id']}"
    return made, Change(put=[made])


def session_expire(book: Book, id: str) -> tuple[Object, Change]:
    before = book.get("checkout.session", id)
    if before["status"] != "open":
        raise refused(
            f'Only Checkout Sessions with a status in ["open"] can be expired. This Checkout Session has a status of '
            f"`{before['status']}`.",
            code="checkout_session_not_open",
        )
    after = {**before, "status": "expired", "url": None}
    return after, Change(put=[after], events=[_told("checkout.session.expired", after, book.now())])


def sessions_overdue(book: Book) -> Change:
    """Whatever nobody paid in time expires by itself."""
    whole, now = Change(), book.now()
    for one in book.open_sessions():
        if one["expires_at"] <= now:
            _, change = session_expire(book, one["id"])
            whole.put += change.put
            whole.events += change.events
    return whole


def session_pay(book: Book, id: str) -> tuple[Object, Change]:
    """By a card that works."""
    session, intent, now = *_payable(book, id), book.now()
    charge = new_charge(intent, now, method="card", status="succeeded")
    paid = _succeeded(intent, charge)
    after = _completed(book, session, paid, payment_status="paid")
    return after, Change(
        put=[after, paid, charge],
        events=[
            new_event("charge.succeeded", charge, now),
            new_event("payment_intent.succeeded", paid, now),
            _told("checkout.session.completed", after, now),
        ],
    )


def session_decline(book: Book, id: str) -> tuple[Object, Change]:
    """By a card that is refused: the session stays open for another one."""
    session, intent, now = *_payable(book, id), book.now()
    why = {
        "type": "card_error",
        "code": "card_declined",
        "decline_code": "generic_decline",
        "message": "Your card was declined.",
    }
    failed = {"status": "failed", "failure_code": why["code"], "failure_message": why["message"]}
    charge = new_charge(intent, now, method="card", **failed)
    after = {**intent, "last_payment_error": why, "latest_charge": charge["id"], "status": "requires_payment_method"}
    session = {**session, "payment_intent": after["id"]}
    return session, Change(
        put=[session, after, charge], events=[new_event("payment_intent.payment_failed", after, now)]
    )


def session_pay_by_bank(book: Book, id: str, *, good: bool, seconds: int) -> tuple[Object, Change]:
    """Complete now, paid later or never: the transfer arrives after so many seconds, or fails."""
    session, intent, now = *_payable(book, id), book.now()
    charge = new_charge(intent, now, method="us_bank_account", status="pending")
    waiting = {**intent, "status": "processing", "latest_charge": charge["id"]}
    after = _completed(book, session, waiting, payment_status="unpaid")
    return after, Change(
        put=[after, waiting, charge],
        events=[_told("checkout.session.completed", after, now)],
        due=[Due(id, now + seconds, good)],
    )


def session_settle(book: Book, due: Due) -> Change:
    """What the bank did."""
    session, now = book.get("checkout.session", due.id), book.now()
    intent = book.get("payment_intent", session["payment_intent"])
    charge = book.get("charge", intent["latest_charge"])
    if due.good:
        charge = {**charge, "status": "succeeded", "paid": True, "captured": True, "amount_captured": charge["amount"]}
        intent = _succeeded(intent, charge)
        session = {**session, "payment_status": "paid"}
        events = [_told("checkout.session.async_payment_succeeded", session, now)]
    else:
        why = {"type": "card_error", "code": "payment_method_customer_decline", "message": "The transfer failed."}
        charge = {**charge, "status": "failed", "failure_code": why["code"], "failure_message": why["message"]}
        intent = {**intent, "status": "requires_payment_method", "last_payment_error": why}
        events = [
            new_event("payment_intent.payment_failed", intent, now),
            _told("checkout.session.async_payment_failed", session, now),
        ]
    return Change(put=[session, intent, charge], events=events, done=[due.id])


def session_view(session: Object) -> Object:
    """As answered and told: without what only we read."""
    return {name: value for name, value in session.items() if not name.startswith("_")}


def line_items(session: Object) -> Object:
    return page_of(f"/v1/checkout/sessions/{session['id']}/line_items", session["_lines"], has_more=False)


def success_url(session: Object) -> str:
    url: str = session["success_url"]
    return url.replace(SESSION_PLACE, session["id"])


def _told(type: str, session: Object, now: int) -> Object:
    return new_event(type, session_view(session), now)


def _payable(book: Book, id: str) -> tuple[Object, Object]:
    """An open session and its intent, which is made at the first attempt to pay."""
    session, now = book.get("checkout.session", id), book.now()
    if session["status"] != "open" or session["expires_at"] <= now:
        raise refused("This Checkout Session is not open any more.", code="checkout_session_not_open")
    if session["payment_intent"] is not None:
        return session, book.get("payment_intent", session["payment_intent"])
    return session, new_intent(session, now, session["_intent_metadata"], session["_description"])


def _succeeded(intent: Object, charge: Object) -> Object:
    return {
        **intent,
        "status": "succeeded",
        "amount_received": intent["amount"],
        "latest_charge": charge["id"],
        "last_payment_error": None,
    }


def _completed(book: Book, session: Object, intent: Object, *, payment_status: str) -> Object:
    customer = book.find(session["customer"]) if session["customer"] else None
    email = session["customer_email"] or (customer["email"] if customer else None)
    details: dict[str, Any] = {"email": email, "name": customer["name"] if customer else None}
    return {
        **session,
        "status": "complete",
        "payment_status": payment_status,
        "payment_intent": intent["id"],
        "customer_details": details,
        "url": None,
    }


def _total(items: list[LineItem]) -> tuple[int, str]:
    currencies = {item.price_data.currency.lower() for item in items}
    if len(currencies) > 1:
        raise invalid("All line items must have the same currency.", param="line_items")
    total = sum(item.price_data.unit_amount * item.quantity for item in items)
    if total > LARGEST_AMOUNT:
        raise invalid("The total must be no more than 999,999.99.", code="amount_too_large", param="line_items")
    return total, currencies.pop()


def _line(item: LineItem, currency: str) -> Object:
    price, product = item.price_data, item.price_data.product_data
    total = price.unit_amount * item.quantity
    return {
        "object": "item",
        "description": product.name,
        "details": product.description,
        "quantity": item.quantity,
        "currency": currency,
        "amount_subtotal": total,
        "amount_total": total,
        "price": {"object": "price", "currency": currency, "unit_amount": price.unit_amount},
    }
