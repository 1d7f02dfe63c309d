"""What is said of money: where an organisation stands, what follows when, budgets, balances changed by hand."""

from gpuaas.contracts.events.billing import (
    BalanceAdjusted,
    BudgetReached,
    FaultCredited,
    StandingChanged,
    StandingCountdown,
)
from gpuaas.contracts.http.budgets import BudgetLimit
from gpuaas.contracts.http.standing import Rung
from gpuaas.domains.notifications.words import Facts, Words, at, money, span, words

HARD_REACHED = 100
_THEN = {
    Rung.STOPPED: "everything that runs is stopped; your data stays",
    Rung.RELEASED: "everything is released, and the data on it is erased",
}


def low(event: StandingChanged, facts: Facts) -> Words:
    left = "" if event.runway_seconds is None else f"At what runs now it lasts for {span(event.runway_seconds)}."
    return words(
        f"{facts.org}: the balance is low",
        left,
        "Add money to keep everything running.",
        organisation=facts.org,
        balance=money(event.balance_micros, event.currency),
    )


def empty(event: StandingChanged, facts: Facts) -> Words:
    due = "" if event.due_at is None else f"At {at(event.due_at)} {_THEN[Rung.STOPPED]}."
    return words(
        f"{facts.org}: the balance is used up",
        "New allocations are refused.",
        due,
        "Money at any time before ends this at once.",
        organisation=facts.org,
        balance=money(event.balance_micros, event.currency),
        next_step=_instant(event),
    )


def stopped(event: StandingChanged, facts: Facts) -> Words:
    due = "" if event.due_at is None else f"At {at(event.due_at)} {_THEN[Rung.RELEASED]}."
    return words(
        f"{facts.org}: allocations are stopped",
        "The balance is used up, so what ran was stopped. Nothing is charged while it stands still.",
        due,
        "Money brings it back as it was.",
        organisation=facts.org,
        balance=money(event.balance_micros, event.currency),
        next_step=_instant(event),
    )


def released(event: StandingChanged, facts: Facts) -> Words:
    return words(
        f"{facts.org}: allocations are released",
        "No money came in time, so the organisation's allocations were released and the data on them is erased.",
        "With money in the balance you can ask for new ones.",
        organisation=facts.org,
        balance=money(event.balance_micros, event.currency),
    )


def recovered(event: StandingChanged, facts: Facts) -> Words:
    return words(
        f"{facts.org}: the balance is good again",
        "Nothing will be stopped; what was stopped for want of money starts again.",
        organisation=facts.org,
        balance=money(event.balance_micros, event.currency),
    )


def countdown(event: StandingCountdown, facts: Facts) -> Words:
    then = _THEN.get(event.next_rung, f"the organisation is {event.next_rung}")
    return words(
        f"{facts.org}: {span(event.seconds_left)} left",
        f"The balance is used up. At {at(event.due_at)} {then}.",
        "Money at any time before ends this at once.",
        organisation=facts.org,
        due=at(event.due_at),
    )


def budget(event: BudgetReached, facts: Facts) -> Words:
    hard = event.limit is BudgetLimit.HARD
    due = "" if event.due_at is None else f"What runs in it is stopped at {at(event.due_at)}."
    return words(
        f"Project {facts.project}: {event.percent} % of its {event.limit} budget is spent",
        "New allocations in this project are refused." if hard and event.percent >= HARD_REACHED else "",
        due,
        "Raise the budget, or wait for the next month.",
        organisation=facts.org,
        project=facts.project,
        month=event.month,
        spent=money(event.spent_micros, event.currency),
        limit=money(event.limit_micros, event.currency),
    )


def adjusted(event: BalanceAdjusted, facts: Facts) -> Words:
    amount = money(abs(event.amount_micros), event.currency)
    what = f"{amount} was credited" if event.amount_micros >= 0 else f"{amount} was taken off"
    return words(
        f"{facts.org}: {what}",
        "An operator changed the balance. The reason is in the ledger: gpuaas billing ledger.",
        organisation=facts.org,
        balance=money(event.balance_micros, event.currency),
    )


def fault_credited(event: FaultCredited, facts: Facts) -> Words:
    return words(
        f"{facts.org}: {money(event.amount_micros, event.currency)} was credited for a hardware fault",
        f"Hardware of {facts.allocation} failed. It is not charged while it cannot be used; this is beside that.",
        organisation=facts.org,
        project=facts.project,
        allocation=facts.allocation,
        fault=event.reason,
    )


def _instant(event: StandingChanged) -> str:
    return "" if event.due_at is None else at(event.due_at)
