"""Operations on payments: topping up, and what became of it."""

from uuid import UUID

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.payments import (
    PaymentAccept,
    PaymentAdminQuery,
    PaymentCreate,
    PaymentQuery,
    PaymentView,
    PortalView,
)
from gpuaas.contracts.permissions import P
from gpuaas.domains.payments.checkouts import service
from gpuaas.domains.payments.checkouts.models import Payment
from gpuaas.domains.payments.checkouts.states import S
from gpuaas.domains.payments.settlement import service as settlement
from gpuaas.domains.payments.settlement.models import Source
from gpuaas.domains.payments.site import PaymentSite
from gpuaas.infra.http.context import OrgContext, PlatformContext
from gpuaas.infra.http.listing import before, page
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.infra.postgres.tx import Sight
from gpuaas.kit.ids import PaymentId
from gpuaas.ports.payments import Checkout, PaymentProvider

_PROVIDER = (Code.PAYMENT_PROVIDER_AWAY, Code.PAYMENT_PROVIDER_REFUSED, Code.PAYMENTS_NOT_SET_UP)


def _provider(cx: OrgContext) -> PaymentProvider:
    return cx.parts.get(PaymentProvider)  # type: ignore[type-abstract] # the part is whatever implements it


async def _begin(cx: OrgContext, wanted: PaymentCreate) -> tuple[Payment, Checkout | None]:
    key = cx.headers[b"idempotency-key"].decode()
    url = cx.parts.get(PaymentSite).return_url
    return await service.payment_begin(
        cx.db, cx.actor, cx.policy, _provider(cx), cx.org_id, wanted, key=key, return_url=url
    )


@operation(
    "POST",
    "/orgs/{org_id}/payments",
    permission=P.BILLING_MANAGE,
    lane=Lane.FINANCIAL,
    audit="payment.create",
    status=201,
    prepare=_begin,
    tag="payments",
    errors=(Code.PAYMENT_AMOUNT_REFUSED, Code.PAYMENT_CURRENCY_REFUSED, Code.PAYMENT_MISSING, *_PROVIDER),
)
async def payment_create(cx: OrgContext, wanted: PaymentCreate) -> PaymentView:
    """Top up: the answer's url is the provider's page, where it is paid.

    The amount is in the balance once the provider has told us that it was paid, usually within seconds."""
    return view(await service.payment_opened(cx.tx, *cx.prepared))


@operation("GET", "/orgs/{org_id}/payments", permission=P.BILLING_READ, lane=Lane.DEFAULT, tag="payments")
async def payment_list(cx: OrgContext, query: PaymentQuery) -> Page[PaymentView]:
    """List the organisation's payments, newest first."""
    rows = await service.payment_list(
        cx.tx, before=before(cx, query), state=query.state, org_id=cx.org_id, limit=query.limit + 1
    )
    return page(cx, query, rows, view)


@operation(
    "GET",
    "/orgs/{org_id}/payments/{payment_id}",
    permission=P.BILLING_READ,
    lane=Lane.DEFAULT,
    tag="payments",
    errors=(Code.PAYMENT_MISSING,),
)
async def payment_get(cx: OrgContext, payment_id: UUID) -> PaymentView:
    """Show a payment."""
    return view(await service.payment_of(cx.tx, cx.org_id, payment_id))


async def _close(cx: OrgContext, payment_id: UUID) -> tuple[Payment, Checkout | None]:
    async with cx.db.read(Sight(cx.org_id, cx.actor.id)) as tx:
        payment = await service.payment_of(tx, cx.org_id, payment_id)
    if payment.state is not S.OPEN or payment.session_id is None:
        return payment, None
    return payment, await _provider(cx).checkout_expire(payment.session_id)


@operation(
    "POST",
    "/orgs/{org_id}/payments/{payment_id}/cancel",
    permission=P.BILLING_MANAGE,
    lane=Lane.FINANCIAL,
    audit="payment.cancel",
    prepare=_close,
    tag="payments",
    errors=(Code.PAYMENT_MISSING, Code.STATE_MOVE_REFUSED, *_PROVIDER),
)
async def payment_cancel(cx: OrgContext, payment_id: UUID) -> PaymentView:
    """Close a payment's page, if nobody has paid there yet."""
    payment, closed = cx.prepared
    if closed is not None:
        await settlement.checkout_seen(cx.tx, closed, source=Source.ANSWER)
    return view(await service.payment_cancelled(cx.tx, payment))


async def _open_portal(cx: OrgContext) -> str:
    url = cx.parts.get(PaymentSite).return_url
    return await service.portal_open(cx.db, cx.actor, _provider(cx), cx.org_id, url)


@operation(
    "POST",
    "/orgs/{org_id}/billing-portal",
    permission=P.BILLING_MANAGE,
    lane=Lane.FINANCIAL,
    audit="payment.portal_open",
    status=201,
    prepare=_open_portal,
    tag="payments",
    errors=_PROVIDER,
)
async def billing_portal_open(cx: OrgContext) -> PortalView:
    """Open the provider's page on which the organisation's ways to pay and receipts are."""
    return PortalView(url=cx.prepared)


@operation("GET", "/admin/payments", permission=P.BILLING_READ, lane=Lane.DEFAULT, tag="payments")
async def payment_list_all(cx: PlatformContext, query: PaymentAdminQuery) -> Page[PaymentView]:
    """List payments of all organisations, newest first."""
    rows = await service.payment_list(
        cx.tx, before=before(cx, query), state=query.state, org_id=query.org_id, limit=query.limit + 1
    )
    return page(cx, query, rows, view)


@operation(
    "POST",
    "/admin/payments/{payment_id}/accept",
    permission=P.BILLING_MANAGE,
    lane=Lane.FINANCIAL,
    audit="payment.accept",
    tag="payments",
    errors=(
        Code.PAYMENT_MISSING,
        Code.STATE_MOVE_REFUSED,
        Code.ADJUSTMENT_OWN,
        Code.PAYMENT_CURRENCY_REFUSED,
        Code.PAYMENT_AMOUNT_REFUSED,
    ),
)
async def payment_accept(cx: PlatformContext, payment_id: UUID, wanted: PaymentAccept) -> PaymentView:
    """Credit what the provider took, where that is not what was asked for (failed_reconcile), with a reason.

    Above the policy billing.adjustment_four_eyes_micros the first operator's word is kept, and a second one has to
    accept it too. What was accepted can be given back as any payment is."""
    return view(
        await settlement.payment_accept(cx.tx, cx.actor, cx.policy, PaymentId(payment_id), reason=wanted.reason)
    )


def view(found: Payment) -> PaymentView:
    shown = msgspec.structs.asdict(found)
    return PaymentView(**{name: shown[name] for name in PaymentView.__struct_fields__})
