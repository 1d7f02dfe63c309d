"""Budgets of projects over HTTP: what may be spent in a calendar month (UTC). Amounts are whole micro-units."""

from enum import StrEnum


class BudgetLimit(StrEnum):
    SOFT = "soft"
    """Told of, at 50, 80 and 100 per cent."""
    HARD = "hard"
    """Reached, no new allocations in the project, and after billing.budget_grace_minutes what runs is stopped."""
