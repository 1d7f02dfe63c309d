"""Operations on refunds: for operators."""

from uuid import UUID

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.payments import RefundCreate, RefundDecision, RefundQuery, RefundView
from gpuaas.contracts.permissions import P
from gpuaas.domains.payments.refunds import service
from gpuaas.domains.payments.refunds.models import Refund
from gpuaas.infra.http.context import PlatformContext
from gpuaas.infra.http.listing import before, page
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit.ids import PaymentId, RefundId


@operation(
    "POST",
    "/admin/payments/{payment_id}/refunds",
    permission=P.BILLING_MANAGE,
    lane=Lane.FINANCIAL,
    audit="payment.refund_create",
    status=202,
    tag="payments",
    errors=(
        Code.PAYMENT_MISSING,
        Code.STATE_MOVE_REFUSED,
        Code.REFUND_TOO_LARGE,
        Code.PAYMENT_AMOUNT_REFUSED,
        Code.PAYMENT_CURRENCY_REFUSED,
    ),
)
async def refund_create(cx: PlatformContext, payment_id: UUID, wanted: RefundCreate) -> RefundView:
    """Give money of a payment back to whoever paid it, with a reason.

    The money is set aside, the provider is asked, and then it is taken from the balance. Above the policy
    billing.adjustment_four_eyes_micros it is a proposal, which somebody else has to approve."""
    return view(await service.refund_create(cx.tx, cx.actor, cx.policy, PaymentId(payment_id), wanted))


@operation("GET", "/admin/refunds", permission=P.BILLING_READ, lane=Lane.DEFAULT, tag="payments")
async def refund_list(cx: PlatformContext, query: RefundQuery) -> Page[RefundView]:
    """List refunds, newest first: those that wait for approval, with state=proposed."""
    rows = await service.refund_list(
        cx.tx,
        before=before(cx, query),
        state=query.state,
        org_id=query.org_id,
        payment_id=query.payment_id,
        limit=query.limit + 1,
    )
    return page(cx, query, rows, view)


@operation(
    "POST",
    "/admin/refunds/{refund_id}/approve",
    permission=P.BILLING_MANAGE,
    lane=Lane.FINANCIAL,
    audit="payment.refund_approve",
    tag="payments",
    errors=(Code.REFUND_MISSING, Code.REFUND_OWN, Code.ADJUSTMENT_OWN, Code.STATE_MOVE_REFUSED),
)
async def refund_approve(cx: PlatformContext, refund_id: UUID, wanted: RefundDecision) -> RefundView:
    """Have a refund made that somebody else proposed."""
    return view(await service.refund_approve(cx.tx, cx.actor, RefundId(refund_id), reason=wanted.reason))


@operation(
    "POST",
    "/admin/refunds/{refund_id}/reject",
    permission=P.BILLING_MANAGE,
    lane=Lane.FINANCIAL,
    audit="payment.refund_reject",
    tag="payments",
    errors=(Code.REFUND_MISSING, Code.STATE_MOVE_REFUSED),
)
async def refund_reject(cx: PlatformContext, refund_id: UUID, wanted: RefundDecision) -> RefundView:
    """Decide that a proposed refund is not made; who proposed it takes it back so."""
    return view(await service.refund_reject(cx.tx, cx.actor, RefundId(refund_id), reason=wanted.reason))


def view(found: Refund) -> RefundView:
    shown = msgspec.structs.asdict(found)
    return RefundView(**{name: shown[name] for name in RefundView.__struct_fields__})
