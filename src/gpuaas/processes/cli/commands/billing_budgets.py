"""What projects may spend in a month: `gpuaas billing budgets`."""

from uuid import UUID

from gpuaas.client import budgets
from gpuaas.contracts.http.budgets import BudgetQuery, BudgetSet, BudgetView
from gpuaas.kit.money import DEFAULT_CURRENCY, NotAnAmount, format_micros, parse_micros
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ALL, LIMIT, ORG, YES, Argument, Group
from gpuaas.processes.cli.failures import Exit, Stop, UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

GROUP = Group("budgets", "What projects may spend in a calendar month (UTC).")
_CURRENCY = Argument("--currency", default=DEFAULT_CURRENCY, help=f"Default: {DEFAULT_CURRENCY}.")
_PROJECT = Argument("project", help="Its name or id.", completes="project")
_BUDGETS: list[Column[BudgetView]] = [
    ("project", lambda one: one.project),
    ("month", lambda one: one.month),
    ("spent", lambda one: format_micros(one.spent_micros, one.currency)),
    ("percent", lambda one: one.percent),
    ("soft limit", lambda one: _limit(one.soft_micros)),
    ("hard limit", lambda one: _limit(one.hard_micros)),
    ("stops at", lambda one: one.stops_at),
    ("set by", lambda one: one.set_by),
    ("id", lambda one: one.id),
]


@GROUP.command("list", ORG, LIMIT, ALL, summary="List budgets, with what was spent of them this month.")
def budget_list(run: Run, *, org: str | None, limit: int, all: bool) -> None:
    call = budgets.budget_list(names.org(run, org), BudgetQuery())
    run.table(call, _BUDGETS, limit=limit, all=all, empty="No project has a budget.")


@GROUP.command(
    "show", _PROJECT, ORG, _CURRENCY, summary="Show a project's budget, and what was spent of it this month."
)
def budget_get(run: Run, *, project: str, org: str | None, currency: str) -> None:
    org_id = names.org(run, org)
    run.show(budgets.budget_get(org_id, _found(run, org_id, project, org, currency)), _BUDGETS)


@GROUP.command(
    "set",
    _PROJECT,
    Argument("--soft", help="Told at 50, 80 and 100 per cent of it: 1000.00."),
    Argument("--hard", help="Reached, nothing new begins in the project, and what runs is stopped: 1500.00."),
    ORG,
    _CURRENCY,
    summary="Set what a project may spend in a calendar month, instead of what was set before.",
    examples=["gpuaas billing budgets set research --soft 1000.00 --hard 1500.00"],
)
def budget_set(run: Run, *, project: str, soft: str | None, hard: str | None, org: str | None, currency: str) -> None:
    wanted = BudgetSet(
        project_id=names.project(run, project, org),
        soft_micros=_micros(soft),
        hard_micros=_micros(hard),
        currency=currency,
    )
    run.show(budgets.budget_set(names.org(run, org), wanted), _BUDGETS)


@GROUP.command("delete", _PROJECT, ORG, _CURRENCY, YES, summary="Take a project's budget away.")
def budget_delete(run: Run, *, project: str, org: str | None, currency: str, yes: bool) -> None:
    org_id = names.org(run, org)
    found = _found(run, org_id, project, org, currency)
    run.confirm(f"Let {project} spend what the organisation has?", yes=yes)
    run.done(budgets.budget_delete(org_id, found), f"The budget of {project} is gone.")


def _found(run: Run, org_id: UUID, project: str, org: str | None, currency: str) -> UUID:
    query = BudgetQuery(project_id=names.project(run, project, org))
    for one in run.api.send(budgets.budget_list(org_id, query)).items:
        if one.currency == currency:
            return one.id
    raise Stop(f"{project} has no budget in {currency}.", "Set one: gpuaas billing budgets set --help", Exit.MISSING)


def _micros(text: str | None) -> int | None:
    try:
        found = None if text is None else parse_micros(text)
    except NotAnAmount as error:
        raise UsageError(f"{error}.", "Write 12.50: at most six places.") from None
    if found is not None and found < 1:
        raise UsageError("A limit is more than nothing.", "Write 12.50; to end a budget: gpuaas billing budgets delete")
    return found


def _limit(micros: int | None) -> str:
    return "" if micros is None else format_micros(micros)
