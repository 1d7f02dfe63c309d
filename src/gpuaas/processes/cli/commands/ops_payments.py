"""Payments of all organisations, refunds, and where the provider and we differ: for operators."""

from uuid import UUID

from gpuaas.client import payments
from gpuaas.contracts.http.payments import (
    DifferenceQuery,
    DifferenceView,
    PaymentAccept,
    PaymentAdminQuery,
    PaymentState,
    PaymentView,
    RefundCreate,
    RefundDecision,
    RefundQuery,
    RefundState,
    RefundView,
)
from gpuaas.kit.money import format_micros
from gpuaas.processes.cli import names
from gpuaas.processes.cli.commands.billing_payments import COLUMNS, micros, payment_id
from gpuaas.processes.cli.declare import ALL, LIMIT, REASON, YES, Argument, Group
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

GROUP = Group("payments", "Payments of all organisations: list them, give money back, see what does not fit.")
REFUNDS = GROUP.group("refunds", "What was given back, and what waits for a second operator.")
_ORG = Argument("--org", help="Only of this organisation, by name or id.", completes="org")
_REFUND = Argument("refund", help="Its id, as in `gpuaas ops payments refunds list`.")
_PAYMENTS: list[Column[PaymentView]] = [*COLUMNS, ("organisation", lambda one: one.org_id)]
_REFUNDS: list[Column[RefundView]] = [
    ("id", lambda one: one.id),
    ("state", lambda one: one.state.value),
    ("amount", lambda one: format_micros(one.amount_micros, one.currency)),
    ("reason", lambda one: one.reason),
    ("asked by", lambda one: one.asked_by),
    ("decided by", lambda one: one.decided_by),
    ("why not", lambda one: one.failure),
    ("payment", lambda one: one.payment_id),
    ("organisation", lambda one: one.org_id),
    ("at", lambda one: one.created_at),
]
_DIFFERENCES: list[Column[DifferenceView]] = [
    ("kind", lambda one: one.kind.value.replace("_", " ")),
    ("object", lambda one: one.object_id),
    ("ours", lambda one: format_micros(one.ours_micros, one.currency)),
    ("theirs", lambda one: format_micros(one.theirs_micros, one.currency)),
    ("what", lambda one: one.detail),
    ("payment", lambda one: one.payment_id),
    ("found", lambda one: one.found_at),
    ("settled", lambda one: one.settled_at),
]


@GROUP.command(
    "list",
    _ORG,
    Argument("--state", choices=tuple(state.value for state in PaymentState), help="Only in this state."),
    LIMIT,
    ALL,
    summary="List payments of all organisations, newest first.",
)
def payment_list_all(run: Run, *, org: str | None, state: str | None, limit: int, all: bool) -> None:
    query = PaymentAdminQuery(
        state=None if state is None else PaymentState(state), org_id=None if org is None else names.org(run, org)
    )
    run.table(payments.payment_list_all(query), _PAYMENTS, limit=limit, all=all, empty="There is no such payment.")


@GROUP.command(
    "refund",
    Argument("payment", help="Its id, as in `gpuaas ops payments list`."),
    Argument("--amount", help="How much of it: 12.50. Default: all that is left."),
    REASON,
    YES,
    summary="Give money of a payment back to whoever paid it. A large amount waits for a second operator.",
)
def refund_create(run: Run, *, payment: str, amount: str | None, reason: str, yes: bool) -> None:
    found = payment_id(payment)
    run.confirm(f"Give back {amount or 'all that is left'} of the payment {payment}?", yes=yes)
    wanted = RefundCreate(amount_micros=None if amount is None else micros(amount), reason=reason)
    made = run.show(payments.refund_create(found, wanted), _REFUNDS)
    if made.state is RefundState.PROPOSED and not run.out.json:
        run.out.note(f"It waits for somebody else: gpuaas ops payments refunds approve {made.id} --reason …")


@GROUP.command(
    "accept",
    Argument("payment", help="Its id, as in `gpuaas ops payments list --state failed_reconcile`."),
    REASON,
    YES,
    summary="Credit what the provider took, where that is not what was asked for. A large amount needs two operators.",
)
def payment_accept(run: Run, *, payment: str, reason: str, yes: bool) -> None:
    found = payment_id(payment)
    run.confirm(f"Credit what the provider took for the payment {payment}?", yes=yes)
    shown = run.show(payments.payment_accept(found, PaymentAccept(reason=reason)), _PAYMENTS)
    if shown.state is PaymentState.FAILED_RECONCILE and not run.out.json:
        run.out.note("It waits for somebody else to accept it too.")


@GROUP.command(
    "differences",
    Argument("--settled", flag=True, help="Those that are no more, too."),
    LIMIT,
    ALL,
    summary="List where the payment provider and our books differ.",
)
def payment_difference_list(run: Run, *, settled: bool, limit: int, all: bool) -> None:
    call = payments.payment_difference_list(DifferenceQuery(settled=settled))
    run.table(call, _DIFFERENCES, limit=limit, all=all, empty="The payment provider and our books agree.")


@REFUNDS.command(
    "list",
    Argument("--state", choices=tuple(state.value for state in RefundState), help="Only in this state."),
    Argument("--payment", help="Only of this payment, by id."),
    _ORG,
    LIMIT,
    ALL,
    summary="List refunds, newest first.",
)
def refund_list(run: Run, *, state: str | None, payment: str | None, org: str | None, limit: int, all: bool) -> None:
    query = RefundQuery(
        state=None if state is None else RefundState(state),
        org_id=None if org is None else names.org(run, org),
        payment_id=None if payment is None else payment_id(payment),
    )
    run.table(payments.refund_list(query), _REFUNDS, limit=limit, all=all, empty="Nothing was refunded that fits.")


@REFUNDS.command("approve", _REFUND, REASON, YES, summary="Have a refund made that somebody else proposed.")
def refund_approve(run: Run, *, refund: str, reason: str, yes: bool) -> None:
    found = _id(refund)
    run.confirm(f"Make the refund {refund}?", yes=yes)
    run.show(payments.refund_approve(found, RefundDecision(reason=reason)), _REFUNDS)


@REFUNDS.command("reject", _REFUND, REASON, summary="Decide that it is not made; or take back your own.")
def refund_reject(run: Run, *, refund: str, reason: str) -> None:
    run.show(payments.refund_reject(_id(refund), RefundDecision(reason=reason)), _REFUNDS)


def _id(text: str) -> UUID:
    found = names.as_id(text)
    if found is None:
        raise UsageError(f"A refund is named by its id, not {text!r}.", "See: gpuaas ops payments refunds list")
    return found
