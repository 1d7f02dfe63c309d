"""Topping up: commands of `gpuaas billing`."""

import time
from uuid import UUID

from gpuaas.client import payments
from gpuaas.client.api import decode
from gpuaas.contracts.http.payments import PaymentCreate, PaymentQuery, PaymentState, PaymentView
from gpuaas.kit.money import DEFAULT_CURRENCY, NotAnAmount, format_micros, parse_micros
from gpuaas.processes.cli import names
from gpuaas.processes.cli.browser import open_browser
from gpuaas.processes.cli.declare import ALL, LIMIT, ORG, Argument, Group
from gpuaas.processes.cli.failures import Stop, UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

GROUP = Group("billing", "")
PAYMENTS = GROUP.group("payments", "What was paid in, and what became of each payment.")
LOOK_SECONDS = 1.0
WAITS_FOR = frozenset({PaymentState.CREATED, PaymentState.OPEN})
_PAYMENT = Argument("payment", help="Its id, as in `gpuaas billing payments list`.")
COLUMNS: list[Column[PaymentView]] = [
    ("id", lambda one: one.id),
    ("state", lambda one: one.state.value.replace("_", " ")),
    ("amount", lambda one: format_micros(one.amount_micros, one.currency)),
    ("refunded", lambda one: format_micros(one.refunded_micros) if one.refunded_micros else ""),
    ("asked by", lambda one: one.asked_by),
    ("at", lambda one: one.created_at),
    ("why not", lambda one: one.failure),
]
_SHOWN: list[Column[PaymentView]] = [
    *COLUMNS,
    ("pay at", lambda one: one.url),
    ("until", lambda one: one.expires_at if one.url else ""),
    ("paid", lambda one: one.paid_at),
    ("transaction", lambda one: one.transaction_id),
    ("at the provider", lambda one: one.session_id),
]


@GROUP.command(
    "top-up",
    Argument("amount", help="How much: 50, or 12.50."),
    ORG,
    Argument("--currency", default=DEFAULT_CURRENCY, help=f"Default: {DEFAULT_CURRENCY}."),
    Argument("--open", flag=True, help="Open the page in the browser."),
    Argument("--wait", flag=True, help="Wait until it is paid, or cannot be any more."),
    summary="Pay in: shows the page where it is paid.",
    examples=["gpuaas billing top-up 50", "gpuaas billing top-up 250.00 --org acme --open --wait"],
)
def payment_create(run: Run, *, amount: str, org: str | None, currency: str, open: bool, wait: bool) -> None:
    org_id = names.org(run, org)
    wanted = PaymentCreate(amount_micros=micros(amount), currency=currency)
    made = run.show(payments.payment_create(org_id, wanted), _SHOWN)
    if open and made.url:
        open_browser(made.url)
    if wait:
        _wait(run, org_id, made)


def _wait(run: Run, org_id: UUID, payment: PaymentView) -> None:
    run.out.note("Waiting until it is paid; Ctrl-C stops waiting, not the payment.")
    while payment.state in WAITS_FOR:
        time.sleep(LOOK_SECONDS)
        call = payments.payment_get(org_id, payment.id)
        payment = decode(call, run.api.send_raw(call))
    if payment.state is not PaymentState.SUCCEEDED:
        raise Stop(f"The payment is {payment.state.value.replace('_', ' ')}: {payment.failure or 'see it'}.")
    run.out.note(f"Paid: {format_micros(payment.amount_micros, payment.currency)} are in the balance.")


@GROUP.command(
    "portal",
    ORG,
    Argument("--open", flag=True, help="Open it in the browser."),
    summary="Show the provider's page with your ways to pay and receipts. Whoever has its address is let in.",
)
def billing_portal_open(run: Run, *, org: str | None, open: bool) -> None:
    made = run.show(payments.billing_portal_open(names.org(run, org)), [("url", lambda one: one.url)])
    if open and made.url:
        open_browser(made.url)


@PAYMENTS.command(
    "list",
    ORG,
    Argument("--state", choices=tuple(state.value for state in PaymentState), help="Only in this state."),
    LIMIT,
    ALL,
    summary="List payments, newest first.",
)
def payment_list(run: Run, *, org: str | None, state: str | None, limit: int, all: bool) -> None:
    call = payments.payment_list(
        names.org(run, org), PaymentQuery(state=None if state is None else PaymentState(state))
    )
    run.table(call, COLUMNS, limit=limit, all=all, empty="Nothing was paid in yet: gpuaas billing top-up 50")


@PAYMENTS.command("get", _PAYMENT, ORG, summary="Show a payment, and where it is paid.")
def payment_get(run: Run, *, payment: str, org: str | None) -> None:
    run.show(payments.payment_get(names.org(run, org), payment_id(payment)), _SHOWN)


@PAYMENTS.command("cancel", _PAYMENT, ORG, summary="Close a payment's page, if nobody has paid there yet.")
def payment_cancel(run: Run, *, payment: str, org: str | None) -> None:
    run.show(payments.payment_cancel(names.org(run, org), payment_id(payment)), _SHOWN)


def payment_id(text: str) -> UUID:
    found = names.as_id(text)
    if found is None:
        raise UsageError(f"A payment is named by its id, not {text!r}.", "See: gpuaas billing payments list")
    return found


def micros(text: str) -> int:
    try:
        found = parse_micros(text)
    except NotAnAmount as error:
        raise UsageError(f"{error}.", "Write 50 or 12.50.") from None
    if found <= 0:
        raise UsageError("A payment is of more than nothing.", "Write 50 or 12.50.")
    return found
