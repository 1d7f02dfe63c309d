"""Stripe, by its own library.

Always holds: a call has a time limit and a bounded number of tries; whatever changes something carries a key of our
ids, so that a try after an answer that was lost is answered as the first one was, and charges nobody twice. The library
speaks through httpx, so no thread and no event loop waits for it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any, NoReturn, TypeVar
from uuid import UUID

import stripe

from gpuaas.contracts.error_codes import Code
from gpuaas.infra.payments import stripe_objects as objects
from gpuaas.kit import log
from gpuaas.kit.errors import Conflict, Fault, Unavailable
from gpuaas.ports.payments import Checkout, CheckoutWanted, CustomerUnknown, Dispute, Notice, PaymentProvider, Refunding

TIMEOUT_SECONDS = 10.0
TRIES_AGAIN = 1
PAGE = 100
MAX_PAGES = 200
RETRY_SECONDS = 5
T = TypeVar("T")


class StripePayments(PaymentProvider):
    name = "stripe"

    def __init__(self, secret_key: str, api_base: str = "", *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._http = stripe.HTTPXClient(timeout=timeout_seconds)
        self._client = stripe.StripeClient(
            secret_key,
            base_addresses={"api": api_base.rstrip("/")} if api_base else {},
            max_network_retries=TRIES_AGAIN,
            http_client=self._http,
        )

    async def close(self) -> None:
        await self._http.close_async()  # type: ignore[no-untyped-call] # the library does not say

    async def customer_make(self, org_id: UUID, *, instead_of: str = "") -> str:
        params: Any = {"description": f"organisation {org_id}", "metadata": {"org_id": str(org_id)}}
        key = _keyed(f"customer:{org_id}:{instead_of}" if instead_of else f"customer:{org_id}")
        made = await _said(self._client.v1.customers.create_async(params, key))
        return str(made["id"])

    async def checkout_make(self, wanted: CheckoutWanted) -> Checkout:
        ours = {"payment_id": str(wanted.payment_id), "org_id": str(wanted.org_id)}
        price = {
            "currency": wanted.currency.lower(),
            "unit_amount": wanted.cents,
            "product_data": {"name": wanted.description},
        }
        params: Any = {
            "mode": "payment",
            "customer": wanted.customer_id,
            "client_reference_id": str(wanted.payment_id),
            "line_items": [{"quantity": 1, "price_data": price}],
            "metadata": ours,
            "payment_intent_data": {"metadata": ours},
            "success_url": wanted.return_url,
            "cancel_url": wanted.return_url,
            "expires_at": int(wanted.expires_at.timestamp()),
        }
        # With another customer it is another request: the first one was refused because there is no such customer.
        key = _keyed(f"payment:{wanted.payment_id}:{wanted.customer_id}")
        return objects.checkout(await _said(self._client.v1.checkout.sessions.create_async(params, key)))

    async def checkout_get(self, checkout_id: str) -> Checkout:
        return objects.checkout(await _said(self._client.v1.checkout.sessions.retrieve_async(checkout_id)))

    async def checkout_expire(self, checkout_id: str) -> Checkout:
        key = _keyed(f"expire:{checkout_id}")
        try:
            return objects.checkout(
                await _said(self._client.v1.checkout.sessions.expire_async(checkout_id, None, key), quietly=True)
            )
        except Conflict:  # it is not open: what it is instead is what we want to know
            return await self.checkout_get(checkout_id)

    async def portal_open(self, customer_id: str, return_url: str) -> str:
        params: Any = {"customer": customer_id, "return_url": return_url}
        return str((await _said(self._client.v1.billing_portal.sessions.create_async(params)))["url"])

    async def refund_make(self, refund_id: UUID, intent_id: str, cents: int) -> Refunding:
        params: Any = {"payment_intent": intent_id, "amount": cents, "metadata": {"refund_id": str(refund_id)}}
        key = _keyed(f"refund:{refund_id}")
        return objects.refunding(await _said(self._client.v1.refunds.create_async(params, key)))

    async def checkouts(self, since: datetime) -> AsyncIterator[Checkout]:
        async for given in _all(self._client.v1.checkout.sessions.list_async, since):
            yield objects.checkout(given)

    async def refunds(self, since: datetime) -> AsyncIterator[Refunding]:
        async for given in _all(self._client.v1.refunds.list_async, since):
            yield objects.refunding(given)

    async def disputes(self, since: datetime) -> AsyncIterator[Dispute]:
        async for given in _all(self._client.v1.disputes.list_async, since):
            if not objects.is_inquiry(given):
                yield objects.dispute(given)

    def read(self, body: bytes) -> Notice:
        return objects.notice(body)


def _keyed(key: str) -> Any:
    return {"idempotency_key": key}


async def _all(listing: Callable[..., Awaitable[Any]], since: datetime) -> AsyncIterator[dict[str, Any]]:
    """Newest first, page by page. More pages than we ever ask for are said in the log, not left out in silence."""
    params: dict[str, Any] = {"limit": PAGE, "created": {"gte": int(since.timestamp())}}
    for _ in range(MAX_PAGES):
        page = await _said(listing(params))
        for one in page["data"]:
            yield one
        if not page["has_more"] or not page["data"]:
            return
        params = params | {"starting_after": page["data"][-1]["id"]}
    log.get_logger().error("the provider has more than is asked for at once", pages=MAX_PAGES)


async def _said(call: Awaitable[Any], *, quietly: bool = False) -> dict[str, Any]:
    try:
        answer = await call
    except stripe.StripeError as error:
        _fail(error, quietly=quietly)
    said: dict[str, Any] = answer.to_dict()
    return said


def _fail(error: stripe.StripeError, *, quietly: bool) -> NoReturn:
    """What may yet work, or may have worked without our hearing of it, is away; the rest is refused. Our key being
    wrong is the operator's to see: the customer only hears that it does not work now."""
    status = error.http_status or 0
    told = f"{type(error).__name__} {status} {error.code or ''} {error.request_id or ''}: {error.user_message or error}"
    fault: Fault
    if (
        isinstance(error, stripe.APIConnectionError | stripe.AuthenticationError)
        or status >= 500
        or status in (409, 429)
    ):
        fault = Unavailable(
            Code.PAYMENT_PROVIDER_AWAY,
            "The payment provider does not answer. Repeat the request with the same key: nothing is charged twice.",
            log=told,
            retry_after=RETRY_SECONDS,
        )
    else:
        gone = error.code == "resource_missing" and getattr(error, "param", None) == "customer"
        fault = (CustomerUnknown if gone else Conflict)(
            Code.PAYMENT_PROVIDER_REFUSED,
            "The payment provider refused this. The operator finds why in the log.",
            log=told,
        )
        if not quietly:
            log.get_logger().warning("the payment provider refused", reason=log.scrub_text(told)[:500])
    raise fault from error
