"""Verbs of budgets: what projects may spend in a month."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.base import Done, Page
from gpuaas.contracts.http.budgets import BudgetQuery, BudgetSet, BudgetView


def budget_list(org_id: UUID, query: BudgetQuery) -> Call[Page[BudgetView]]:
    path = f"/orgs/{org_id}/budgets"
    return Call(operation="budget_list", method="GET", path=path, answer=Page[BudgetView], query=query)


def budget_get(org_id: UUID, budget_id: UUID) -> Call[BudgetView]:
    path = f"/orgs/{org_id}/budgets/{budget_id}"
    return Call(operation="budget_get", method="GET", path=path, answer=BudgetView)


def budget_set(org_id: UUID, wanted: BudgetSet) -> Call[BudgetView]:
    path = f"/orgs/{org_id}/budgets"
    return Call(operation="budget_set", method="PUT", path=path, answer=BudgetView, body=wanted)


def budget_delete(org_id: UUID, budget_id: UUID) -> Call[Done]:
    path = f"/orgs/{org_id}/budgets/{budget_id}"
    return Call(operation="budget_delete", method="DELETE", path=path, answer=Done)
