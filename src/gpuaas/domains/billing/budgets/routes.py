"""Operations on budgets: for those who look after an organisation's money."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Done, Page
from gpuaas.contracts.http.budgets import BudgetQuery, BudgetSet, BudgetView
from gpuaas.contracts.permissions import P
from gpuaas.domains.billing.budgets import service
from gpuaas.domains.billing.budgets.limits import percent
from gpuaas.domains.billing.budgets.models import Budget
from gpuaas.infra.http.context import OrgContext
from gpuaas.infra.http.listing import before, page
from gpuaas.infra.http.operation import Lane, operation


@operation("GET", "/orgs/{org_id}/budgets", permission=P.BILLING_READ, lane=Lane.DEFAULT, tag="billing")
async def budget_list(cx: OrgContext, query: BudgetQuery) -> Page[BudgetView]:
    """List the budgets of the organisation's projects, with what they spent this month; newest first."""
    rows = await service.budget_list(
        cx.tx, cx.org_id, before=before(cx, query), project_id=query.project_id, limit=query.limit + 1
    )
    return page(cx, query, rows, view)


@operation(
    "GET",
    "/orgs/{org_id}/budgets/{budget_id}",
    permission=P.BILLING_READ,
    lane=Lane.DEFAULT,
    tag="billing",
    errors=(Code.BUDGET_MISSING,),
)
async def budget_get(cx: OrgContext, budget_id: UUID) -> BudgetView:
    """Show a project's budget, and what it spent this month."""
    return view(await service.budget_get(cx.tx, cx.org_id, budget_id))


@operation(
    "PUT",
    "/orgs/{org_id}/budgets",
    permission=P.BILLING_MANAGE,
    lane=Lane.FINANCIAL,
    audit="billing.budget_set",
    tag="billing",
    errors=(Code.PROJECT_MISSING, Code.BUDGET_REFUSED),
)
async def budget_set(cx: OrgContext, wanted: BudgetSet) -> BudgetView:
    """Set what a project may spend in a calendar month (UTC).

    Of the soft limit, 50, 80 and 100 per cent are told. With the hard limit reached, nothing new begins in the project,
    and after billing.budget_grace_minutes what runs is stopped; until the month is over, or the limit is raised."""
    return view(await service.budget_set(cx.tx, cx.actor, cx.policy, cx.org_id, wanted))


@operation(
    "DELETE",
    "/orgs/{org_id}/budgets/{budget_id}",
    permission=P.BILLING_MANAGE,
    lane=Lane.FINANCIAL,
    audit="billing.budget_delete",
    tag="billing",
    errors=(Code.BUDGET_MISSING,),
)
async def budget_delete(cx: OrgContext, budget_id: UUID) -> Done:
    """Take a budget away: the project spends what the organisation has."""
    await service.budget_delete(cx.tx, cx.org_id, budget_id)
    return Done()


def view(budget: Budget) -> BudgetView:
    return BudgetView(
        id=budget.id,
        project_id=budget.project_id,
        project=budget.project,
        currency=budget.currency,
        month=f"{budget.month:%Y-%m}",
        soft_micros=budget.soft_micros,
        hard_micros=budget.hard_micros,
        spent_micros=budget.spent_micros,
        percent=percent(budget),
        spent=budget.is_spent,
        stops_at=budget.stops_at if budget.is_spent else None,
        set_by=budget.set_by,
        set_at=budget.set_at,
    )
