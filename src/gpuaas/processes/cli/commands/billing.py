"""Money: what an organisation has, what changed it, what is set aside; and for operators, changing it by hand."""

from typing import Any
from uuid import UUID

from gpuaas.client import billing
from gpuaas.contracts.http.billing import (
    AdjustmentCreate,
    AdjustmentDecision,
    AdjustmentQuery,
    AdjustmentState,
    AdjustmentView,
    BalanceQuery,
    BalanceView,
    CreditLineSet,
    EntryView,
    LedgerFilter,
    LedgerQuery,
    MoneyHoldQuery,
    MoneyHoldState,
    MoneyHoldView,
    MoneyHoldVoid,
    PostingKind,
    ReversalCreate,
)
from gpuaas.kit.money import DEFAULT_CURRENCY, NotAnAmount, format_micros, parse_micros
from gpuaas.processes.cli import names
from gpuaas.processes.cli.commands import (
    billing_budgets,
    billing_invoices,
    billing_payments,
    billing_standing,
    billing_usage,
)
from gpuaas.processes.cli.commands.audit import instant
from gpuaas.processes.cli.declare import ALL, LIMIT, ORG, REASON, YES, Argument, Group
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run
from gpuaas.processes.cli.saving import TO_FILE, save

GROUP = Group("billing", "What an organisation has, what changed it, and what is set aside.")
GROUP.children |= billing_usage.GROUP.children | billing_standing.GROUP.children | billing_invoices.GROUP.children
GROUP.children["budgets"] = billing_budgets.GROUP
GROUP.children |= billing_payments.GROUP.children
ADJUSTMENTS = GROUP.group(
    "adjustments", "Balances changed by hand: those that wait for a second operator, and all others."
)
_CURRENCY = Argument("--currency", default=DEFAULT_CURRENCY, help=f"Default: {DEFAULT_CURRENCY}.")
_FILTERS = (
    ORG,
    _CURRENCY,
    Argument("--kind", choices=tuple(kind.value for kind in PostingKind), help="Only of this kind."),
    Argument("--subject", help="Only about this thing (an allocation, an adjustment), by id."),
    Argument("--from", called="since", help="From then on: 2026-01-31, 2026-01-31T08:00Z, or 90m, 12h, 7d ago."),
    Argument("--to", called="until", help="Before then, written the same way."),
)
_BALANCE: list[Column[BalanceView]] = [
    ("balance", lambda one: format_micros(one.balance_micros, one.currency)),
    ("set aside", lambda one: format_micros(one.held_micros, one.currency)),
    ("credit line", lambda one: format_micros(one.credit_line_micros, one.currency)),
    ("available", lambda one: format_micros(one.available_micros, one.currency)),
    ("at", lambda one: one.at),
]
_ENTRIES: list[Column[EntryView]] = [
    ("number", lambda one: one.number),
    ("at", lambda one: one.at),
    ("kind", lambda one: one.kind.replace("_", " ")),
    ("amount", lambda one: format_micros(one.amount_micros)),
    ("balance", lambda one: format_micros(one.balance_micros, one.currency)),
    ("reason", lambda one: one.reason),
    ("subject", lambda one: one.subject_id),
    ("transaction", lambda one: one.transaction_id),
]
_HOLDS: list[Column[MoneyHoldView]] = [
    ("id", lambda one: one.id),
    ("state", lambda one: one.state.value),
    ("amount", lambda one: format_micros(one.amount_micros, one.currency)),
    ("charged", lambda one: format_micros(one.captured_micros, one.currency)),
    ("subject", lambda one: one.subject_id),
    ("reason", lambda one: one.reason),
    ("since", lambda one: one.created_at),
    ("until", lambda one: one.due_at),
]
_ADJUSTMENTS: list[Column[AdjustmentView]] = [
    ("id", lambda one: one.id),
    ("state", lambda one: one.state.value),
    ("amount", lambda one: format_micros(one.amount_micros, one.currency)),
    ("reason", lambda one: one.reason),
    ("asked by", lambda one: one.proposed_by),
    ("decided by", lambda one: one.decided_by),
    ("undoes", lambda one: one.reverses_id),
    ("until", lambda one: one.due_at),
    ("organisation", lambda one: one.org_id),
    ("transaction", lambda one: one.transaction_id),
]


@GROUP.command(
    "balance",
    ORG,
    _CURRENCY,
    Argument("--at", help="As it was then: 2026-01-31, 2026-01-31T08:00Z, or 12h ago. Default: now."),
    summary="Show what an organisation has, and what of it can be spent.",
    examples=["gpuaas billing balance --org acme", "gpuaas billing balance --at 2026-01-31"],
)
def balance_get(run: Run, *, org: str | None, currency: str, at: str | None) -> None:
    org_id = names.org(run, org)
    run.show(billing.balance_get(org_id, BalanceQuery(currency=currency, at=instant(at))), _BALANCE)
    if at is None and not run.out.json:
        billing_standing.say(run, org_id, currency)


def _asked(given: dict[str, Any]) -> dict[str, Any]:
    return {
        "currency": given["currency"],
        "kind": None if given["kind"] is None else PostingKind(given["kind"]),
        "subject_id": None if given["subject"] is None else _id(given["subject"], "--subject"),
        "from_at": instant(given["since"]),
        "to_at": instant(given["until"]),
    }


@GROUP.command("ledger", *_FILTERS, LIMIT, ALL, summary="List what changed the balance, newest first.")
def ledger_list(run: Run, *, limit: int, all: bool, **filters: Any) -> None:
    call = billing.ledger_list(names.org(run, filters["org"]), LedgerQuery(**_asked(filters)))
    run.table(call, _ENTRIES, limit=limit, all=all, empty="Nothing changed the balance that fits.")


@GROUP.command(
    "export",
    *_FILTERS,
    TO_FILE,
    summary="Export what changed the balance as CSV, oldest first.",
    examples=["gpuaas billing export --from 2026-01-01 --to 2026-02-01 --to-file january.csv"],
)
def ledger_export(run: Run, *, to_file: str | None, **filters: Any) -> None:
    save(run, billing.ledger_export_csv(names.org(run, filters["org"]), LedgerFilter(**_asked(filters))), to_file)


@GROUP.command(
    "holds",
    ORG,
    Argument("--state", choices=tuple(state.value for state in MoneyHoldState), help="Only in this state."),
    LIMIT,
    ALL,
    summary="List what is set aside of the balance, newest first.",
)
def money_hold_list(run: Run, *, org: str | None, state: str | None, limit: int, all: bool) -> None:
    query = MoneyHoldQuery(state=None if state is None else MoneyHoldState(state))
    call = billing.money_hold_list(names.org(run, org), query)
    run.table(call, _HOLDS, limit=limit, all=all, empty="Nothing is set aside.")


# ── for operators ────────────────────────────────────────────────────────────────────────────────


@GROUP.command(
    "adjust",
    Argument("amount", help="What the organisation gets: 12.50, or -12.50 to take it away."),
    ORG,
    _CURRENCY,
    REASON,
    YES,
    summary="Change a balance by hand. For operators; a large amount waits for a second one.",
    examples=['gpuaas billing adjust 25.00 --org ORG_ID --reason "goodwill after the outage"'],
)
def adjustment_create(run: Run, *, amount: str, org: str | None, currency: str, reason: str, yes: bool) -> None:
    micros, org_id = _micros(amount), names.org(run, org)
    run.confirm(f"Change the balance of {org or org_id} by {format_micros(micros, currency)}?", yes=yes)
    wanted = AdjustmentCreate(amount_micros=micros, currency=currency, reason=reason)
    _decided(run, run.show(billing.adjustment_create(org_id, wanted), _ADJUSTMENTS))


@GROUP.command(
    "reverse",
    Argument("transaction", help="Its id, as in `gpuaas billing ledger`."),
    REASON,
    YES,
    summary="Undo a transaction, all of it and once. For operators; a large one waits for a second one.",
)
def ledger_reverse(run: Run, *, transaction: str, reason: str, yes: bool) -> None:
    found = _id(transaction, "billing reverse")
    run.confirm(f"Undo the transaction {transaction}?", yes=yes)
    _decided(run, run.show(billing.ledger_reverse(found, ReversalCreate(reason=reason)), _ADJUSTMENTS))


def _decided(run: Run, made: AdjustmentView) -> None:
    if made.state is AdjustmentState.PROPOSED and not run.out.json:
        run.out.note(f"It waits for somebody else: gpuaas billing adjustments approve {made.id} --reason …")


@GROUP.command(
    "credit-line",
    Argument("amount", help="How far below zero the balance may fall: 500.00; 0: not at all."),
    ORG,
    _CURRENCY,
    REASON,
    YES,
    summary="Set how far below zero a balance may fall. For operators.",
)
def credit_line_set(run: Run, *, amount: str, org: str | None, currency: str, reason: str, yes: bool) -> None:
    micros, org_id = _micros(amount), names.org(run, org)
    run.confirm(f"Let {org or org_id} go down to {format_micros(-micros, currency)}?", yes=yes)
    wanted = CreditLineSet(credit_line_micros=micros, currency=currency, reason=reason)
    run.show(billing.credit_line_set(org_id, wanted), _BALANCE)


@GROUP.command(
    "void-hold",
    Argument("hold", help="Its id, as in `gpuaas billing holds`."),
    REASON,
    YES,
    summary="Give back what is set aside, before its time. For operators.",
)
def money_hold_void(run: Run, *, hold: str, reason: str, yes: bool) -> None:
    found = _id(hold, "billing void-hold")
    run.confirm(f"Give back what is set aside by {hold}?", yes=yes)
    run.show(billing.money_hold_void(found, MoneyHoldVoid(reason=reason)), _HOLDS)


@ADJUSTMENTS.command(
    "list",
    Argument("--state", choices=tuple(state.value for state in AdjustmentState), help="Only in this state."),
    Argument("--org", help="Only of this organisation, by name or id.", completes="org"),
    LIMIT,
    ALL,
    summary="List adjustments, newest first.",
)
def adjustment_list(run: Run, *, state: str | None, org: str | None, limit: int, all: bool) -> None:
    query = AdjustmentQuery(
        state=None if state is None else AdjustmentState(state), org_id=None if org is None else names.org(run, org)
    )
    run.table(billing.adjustment_list(query), _ADJUSTMENTS, limit=limit, all=all, empty="There is no such adjustment.")


_ADJUSTMENT = Argument("adjustment", help="Its id.")


@ADJUSTMENTS.command("approve", _ADJUSTMENT, REASON, YES, summary="Post what somebody else proposed.")
def adjustment_approve(run: Run, *, adjustment: str, reason: str, yes: bool) -> None:
    found = _id(adjustment, "adjustments approve")
    run.confirm(f"Post the adjustment {adjustment}?", yes=yes)
    run.show(billing.adjustment_approve(found, AdjustmentDecision(reason=reason)), _ADJUSTMENTS)


@ADJUSTMENTS.command("reject", _ADJUSTMENT, REASON, summary="Decide that it is not posted; or take back your own.")
def adjustment_reject(run: Run, *, adjustment: str, reason: str) -> None:
    found = _id(adjustment, "adjustments reject")
    run.show(billing.adjustment_reject(found, AdjustmentDecision(reason=reason)), _ADJUSTMENTS)


def _id(text: str, where: str) -> UUID:
    found = names.as_id(text)
    if found is None:
        raise UsageError(f"{where} takes an id, not {text!r}.")
    return found


def _micros(text: str) -> int:
    try:
        return parse_micros(text)
    except NotAnAmount as error:
        raise UsageError(f"{error}.", "Write 12.50: at most six places.") from None
