"""What an organisation used, and for how long what it has will last."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.usage import RunwaysView, UsageFilter, UsageLine, UsageQuery, UsageView
from gpuaas.contracts.permissions import P
from gpuaas.domains.billing.usage import service
from gpuaas.domains.billing.usage.models import Line, Wanted
from gpuaas.infra.http.context import OrgContext
from gpuaas.infra.http.operation import Lane, Stream, operation
from gpuaas.kit import clock

_PERIOD = (Code.PERIOD_REFUSED,)


@operation("GET", "/orgs/{org_id}/usage", permission=P.BILLING_READ, lane=Lane.DEFAULT, tag="billing", errors=_PERIOD)
async def usage_get(cx: OrgContext, query: UsageQuery) -> UsageView:
    """Sum up what was charged for use: by day, project, SKU or user. Days are UTC, and those of the charge."""
    wanted = _wanted(cx, query)
    lines, complete = await service.usage_sum(cx.tx, wanted, by=query.by)
    return UsageView(
        from_at=wanted.from_at, to_at=wanted.to_at, by=query.by, lines=list(map(_view, lines)), complete=complete
    )


@operation(
    "GET",
    "/orgs/{org_id}/usage-export/csv",
    errors=_PERIOD,
    permission=P.BILLING_READ,
    lane=Lane.ADMIN,
    transaction=False,
    produces="text/csv",
    tag="billing",
)
async def usage_export_csv(cx: OrgContext, query: UsageFilter) -> Stream:
    """Export what was charged for use as CSV: a line for each allocation and day."""
    chunks = service.usage_export(cx.db, _wanted(cx, query))
    return Stream(chunks, "text/csv; charset=utf-8", f"usage-{cx.org_id}-{clock.now():%Y%m%dT%H%M%SZ}.csv")


@operation("GET", "/orgs/{org_id}/runway", permission=P.BILLING_READ, lane=Lane.DEFAULT, tag="billing")
async def runway_get(cx: OrgContext) -> RunwaysView:
    """Show for how long the balance lasts at what runs now."""
    return RunwaysView(runways=await service.runways(cx.tx, cx.org_id))


def _wanted(cx: OrgContext, query: UsageQuery | UsageFilter) -> Wanted:
    return service.wanted_of(
        cx.org_id,
        query.from_at,
        query.to_at,
        project_id=query.project_id,
        sku_id=query.sku_id,
        user_id=query.user_id,
    )


def _view(line: Line) -> UsageLine:
    return UsageLine(
        day=line.day,
        project_id=line.project_id,
        sku_id=line.sku_id,
        user_id=line.user_id,
        name=line.name,
        currency=line.currency,
        gpu_seconds=line.gpu_seconds,
        micros=line.micros,
    )
