"""Where the provider and our books differ: for operators."""

import msgspec

from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.payments import DifferenceQuery, DifferenceView
from gpuaas.contracts.permissions import P
from gpuaas.domains.payments.reconciling import service
from gpuaas.domains.payments.reconciling.models import Difference
from gpuaas.infra.http.context import PlatformContext
from gpuaas.infra.http.listing import before, page
from gpuaas.infra.http.operation import Lane, operation


@operation("GET", "/admin/payment-differences", permission=P.BILLING_READ, lane=Lane.DEFAULT, tag="payments")
async def payment_difference_list(cx: PlatformContext, query: DifferenceQuery) -> Page[DifferenceView]:
    """List where the payment provider and our books differ, newest first."""
    rows = await service.difference_list(cx.tx, before=before(cx, query), settled=query.settled, limit=query.limit + 1)
    return page(cx, query, rows, view)


def view(found: Difference) -> DifferenceView:
    return DifferenceView(**msgspec.structs.asdict(found))
