"""What of a budget is told when. Pure.

Always holds: more spent, no fewer marks; a mark that is reached stays reached while the month and the limit do."""

from gpuaas.contracts.http.budgets import BudgetLimit
from gpuaas.domains.billing.budgets.models import Budget, Mark

SOFT_PERCENTS = (50, 80, 100)


def fresh(budget: Budget) -> list[Mark]:
    """Those that are reached and were not told."""
    return [mark for mark in marks(budget) if mark.key not in budget.known]


def marks(budget: Budget) -> list[Mark]:
    """All that are reached, the least first."""
    found = []
    if budget.soft_micros is not None:
        found += [
            Mark(limit=BudgetLimit.SOFT, percent=percent, limit_micros=budget.soft_micros)
            for percent in SOFT_PERCENTS
            if budget.spent_micros * 100 >= budget.soft_micros * percent
        ]
    if budget.hard_micros is not None and budget.is_spent:
        found.append(Mark(limit=BudgetLimit.HARD, percent=100, limit_micros=budget.hard_micros))
    return found


def percent(budget: Budget) -> int:
    """Of the soft limit, or else the hard one; rounded down, so that 100 means reached."""
    limit = budget.soft_micros or budget.hard_micros or 1
    return max(budget.spent_micros, 0) * 100 // limit
