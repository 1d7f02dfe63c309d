"""Operations on adjustments: for operators."""

from uuid import UUID

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.billing import (
    AdjustmentCreate,
    AdjustmentDecision,
    AdjustmentQuery,
    AdjustmentView,
    ReversalCreate,
)
from gpuaas.contracts.permissions import P
from gpuaas.domains.billing.adjustments import service
from gpuaas.domains.billing.adjustments.models import Adjustment
from gpuaas.infra.http.context import PlatformContext
from gpuaas.infra.http.listing import before, page
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit.ids import AdjustmentId, OrgId, TransactionId

_MOVES = (Code.ADJUSTMENT_MISSING, Code.STATE_MOVE_REFUSED)
_REVERSALS = (Code.LEDGER_TRANSACTION_MISSING, Code.LEDGER_REVERSED_ALREADY, Code.LEDGER_REVERSAL_FINAL)


@operation(
    "POST",
    "/admin/orgs/{org_id}/adjustments",
    permission=P.BILLING_MANAGE,
    lane=Lane.FINANCIAL,
    audit="billing.adjustment_create",
    status=201,
    tag="billing",
    errors=(Code.ORG_MISSING, Code.BALANCE_TOO_LOW),
)
async def adjustment_create(cx: PlatformContext, org_id: UUID, wanted: AdjustmentCreate) -> AdjustmentView:
    """Change an organisation's balance by hand, with a reason.

    Above the policy billing.adjustment_four_eyes_micros it is a proposal, which somebody else has to approve."""
    return view(await service.adjustment_create(cx.tx, cx.actor, cx.policy, OrgId(org_id), wanted))


@operation(
    "POST",
    "/admin/ledger/{transaction_id}/reversal",
    permission=P.BILLING_MANAGE,
    lane=Lane.FINANCIAL,
    audit="billing.ledger_reverse",
    status=201,
    tag="billing",
    errors=(*_REVERSALS, Code.BALANCE_TOO_LOW),
)
async def ledger_reverse(cx: PlatformContext, transaction_id: UUID, wanted: ReversalCreate) -> AdjustmentView:
    """Undo a transaction of an organisation, all of it and once.

    Above the policy billing.adjustment_four_eyes_micros it is a proposal, which somebody else has to approve."""
    made = await service.ledger_reverse(cx.tx, cx.actor, cx.policy, TransactionId(transaction_id), reason=wanted.reason)
    return view(made)


@operation("GET", "/admin/adjustments", permission=P.BILLING_READ, lane=Lane.DEFAULT, tag="billing")
async def adjustment_list(cx: PlatformContext, query: AdjustmentQuery) -> Page[AdjustmentView]:
    """List adjustments, newest first: those that wait for approval, with state=proposed."""
    rows = await service.adjustment_list(
        cx.tx, before=before(cx, query), state=query.state, org_id=query.org_id, limit=query.limit + 1
    )
    return page(cx, query, rows, view)


@operation(
    "POST",
    "/admin/adjustments/{adjustment_id}/approve",
    permission=P.BILLING_MANAGE,
    lane=Lane.FINANCIAL,
    audit="billing.adjustment_approve",
    tag="billing",
    errors=(*_MOVES, *_REVERSALS, Code.ADJUSTMENT_OWN, Code.BALANCE_TOO_LOW, Code.POSTING_KEY_REUSED),
)
async def adjustment_approve(cx: PlatformContext, adjustment_id: UUID, wanted: AdjustmentDecision) -> AdjustmentView:
    """Post an adjustment that somebody else proposed."""
    approved = await service.adjustment_approve(
        cx.tx, cx.actor, cx.policy, AdjustmentId(adjustment_id), reason=wanted.reason
    )
    return view(approved)


@operation(
    "POST",
    "/admin/adjustments/{adjustment_id}/reject",
    permission=P.BILLING_MANAGE,
    lane=Lane.FINANCIAL,
    audit="billing.adjustment_reject",
    tag="billing",
    errors=_MOVES,
)
async def adjustment_reject(cx: PlatformContext, adjustment_id: UUID, wanted: AdjustmentDecision) -> AdjustmentView:
    """Decide that a proposed adjustment is not posted; who proposed it takes it back so."""
    return view(await service.adjustment_reject(cx.tx, cx.actor, AdjustmentId(adjustment_id), reason=wanted.reason))


def view(found: Adjustment) -> AdjustmentView:
    shown = msgspec.structs.asdict(found)
    return AdjustmentView(**{name: shown[name] for name in AdjustmentView.__struct_fields__})
