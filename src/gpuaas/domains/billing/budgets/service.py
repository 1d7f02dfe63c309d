"""The verbs of budgets. Other parts use:

    refusal(tx, project_id, currency)   raises Conflict(budget_spent) if the project's hard limit is reached
    overdue(tx)                         whose hard limit is reached, and its grace over: what runs there is stopped

Always holds: what is spent is what the meters say, to the second; of each limit, each mark is told once in a month."""

from datetime import timedelta

from gpuaas.contracts.actor import Actor
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.billing import BudgetReached
from gpuaas.contracts.http.budgets import BudgetSet
from gpuaas.domains.billing.budgets import store
from gpuaas.domains.billing.budgets.limits import fresh
from gpuaas.domains.billing.budgets.models import Budget, Mark
from gpuaas.domains.identity.projects import service as projects
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import NIL, PLATFORM, Sight, Tx
from gpuaas.kit.errors import Conflict, Detail, Missing, Refused
from gpuaas.kit.ids import OrgId, ProjectId
from gpuaas.kit.money import DEFAULT_CURRENCY, format_micros
from gpuaas.ports.policy import PolicyReader

BY = "system:billing.budgets"
PAGE = 1_000

budget_get = store.get
budget_list = store.list_of_org
budget_delete = store.delete


async def budget_set(tx: Tx, actor: Actor, policy: PolicyReader, org_id: OrgId, wanted: BudgetSet) -> Budget:
    """Instead of the one there was; what was spent this month counts."""
    if wanted.soft_micros is None and wanted.hard_micros is None:
        raise _refused("soft_micros", "A budget has a soft limit, a hard one, or both.")
    if wanted.soft_micros is not None and wanted.hard_micros is not None and wanted.soft_micros > wanted.hard_micros:
        raise _refused("soft_micros", "The soft limit is not above the hard one.")
    project = await projects.project_get(tx, ProjectId(wanted.project_id))
    if project.org_id != org_id:
        raise Missing(Code.PROJECT_MISSING, "There is no such project here.")
    budget_id = await store.put(tx, org_id, wanted, by=actor.email or actor.name)
    await _mark(tx, policy, await store.get(tx, org_id, budget_id))
    return await store.get(tx, org_id, budget_id)


async def refusal(tx: Tx, project_id: ProjectId, currency: str = DEFAULT_CURRENCY) -> None:
    """Refuse what would cost something, in a project that may not spend more this month."""
    budget = await store.of_project(tx, project_id, currency)
    if budget is not None and budget.is_spent:
        limit = format_micros(budget.hard_micros or 0, currency)
        message = f"{budget.project} has spent its budget of {limit} for {budget.month:%B}. Raise it, or wait."
        raise Conflict(Code.BUDGET_SPENT, message)


async def overdue(tx: Tx) -> list[Budget]:
    """Those in whose projects nothing may run now. A fault that was found since may have made it cheaper again."""
    return [budget for budget in await store.overdue(tx) if budget.is_spent]


async def follow(db: Database, policy: PolicyReader, *, page: int = PAGE) -> int:
    """Look at every budget; how many marks were told. What was marked by somebody else meanwhile is not told again."""
    after, told = NIL, 0
    while True:
        async with db.read(Sight(PLATFORM)) as tx:
            found = await store.page(tx, after, limit=page)
        reached = [budget for budget in found if fresh(budget)]
        if reached:
            async with db.transaction(Sight(PLATFORM), BY) as tx:
                for budget in reached:
                    told += await _mark(tx, policy, budget)
        if len(found) < page:
            return told
        after = found[-1].id


async def _mark(tx: Tx, policy: PolicyReader, budget: Budget) -> int:
    """Of each limit the highest that is new is told: who passes two at once hears of the second."""
    reached = fresh(budget)
    if not reached:
        return 0
    minutes = policy.number("billing.budget_grace_minutes", budget.org_id, budget.project_id)
    marked = await store.mark(tx, budget, reached, grace=timedelta(minutes=minutes))
    highest = {mark.limit: mark for mark in sorted(marked, key=lambda mark: mark.percent)}
    for mark in highest.values():
        _tell(tx, budget, mark)
    return len(highest)


def _tell(tx: Tx, budget: Budget, mark: Mark) -> None:
    event = BudgetReached(
        project_id=budget.project_id,
        currency=budget.currency,
        month=f"{budget.month:%Y-%m}",
        limit=mark.limit,
        percent=mark.percent,
        spent_micros=budget.spent_micros,
        limit_micros=mark.limit_micros,
        due_at=mark.due_at,
    )
    tx.emit(event, subject_id=budget.project_id, org_id=budget.org_id)


def _refused(field: str, reason: str) -> Refused:
    return Refused(Code.BUDGET_REFUSED, reason, details=[Detail(field, reason)])
