"""Statements, invoices and the proof of the books: commands of `gpuaas billing`."""

from typing import Any
from uuid import UUID

from gpuaas.client import billing, invoices
from gpuaas.client.api import decode
from gpuaas.contracts.http.invoices import (
    InvoiceListQuery,
    InvoiceView,
    StatementEntry,
    StatementQuery,
    StatementView,
    UnusableTime,
    UsageCharge,
)
from gpuaas.kit.money import DEFAULT_CURRENCY, format_micros
from gpuaas.processes.cli import names
from gpuaas.processes.cli.commands.audit import instant
from gpuaas.processes.cli.commands.ops_books import proven, require
from gpuaas.processes.cli.declare import ALL, LIMIT, ORG, Argument, Group
from gpuaas.processes.cli.failures import Exit, Stop, UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run
from gpuaas.processes.cli.saving import TO_FILE, save

GROUP = Group("billing", "")
INVOICES = GROUP.group("invoices", "Invoices: one for each month in which the balance changed.")
HOUR_SECONDS = 3_600
_PDF = Argument("--pdf", flag=True, help="As PDF.")
_CSV = Argument("--csv", flag=True, help="As CSV.")
_INVOICE = Argument("invoice", help="Its number or id, as in `gpuaas billing invoices list`.")
_INVOICES: list[Column[InvoiceView]] = [
    ("number", lambda one: one.number),
    ("month", lambda one: f"{one.month:%Y-%m}"),
    ("used", lambda one: format_micros(one.used_micros, one.currency)),
    ("balance before", lambda one: format_micros(one.opening_micros, one.currency)),
    ("balance after", lambda one: format_micros(one.closing_micros, one.currency)),
    ("issued", lambda one: one.issued_at),
    ("id", lambda one: one.id),
]
_USAGE: list[Column[UsageCharge]] = [
    ("project", lambda one: one.project),
    ("cost centre", lambda one: one.cost_centre),
    ("SKU", lambda one: one.sku),
    ("GPU hours", lambda one: f"{one.gpu_seconds / HOUR_SECONDS:.2f}"),
    ("price an hour", lambda one: format_micros(one.micros_per_gpu_hour)),
    ("amount", lambda one: format_micros(-one.micros)),
]
_ENTRIES: list[Column[StatementEntry]] = [
    ("at", lambda one: one.at),
    ("what", lambda one: one.kind),
    ("reason", lambda one: one.reason),
    ("amount", lambda one: format_micros(one.micros)),
]
_UNUSABLE: list[Column[UnusableTime]] = [
    ("not charged from", lambda one: one.from_at),
    ("until", lambda one: one.until_at),
    ("allocation", lambda one: one.allocation_id),
    ("reason", lambda one: one.reason),
    ("seconds", lambda one: one.seconds),
    ("worth", lambda one: format_micros(one.micros)),
]


@GROUP.command(
    "statement",
    ORG,
    Argument("--currency", default=DEFAULT_CURRENCY, help=f"Default: {DEFAULT_CURRENCY}."),
    Argument("--from", called="since", help="From then on: 2026-01-31, or 12h, 7d ago. Default: this month."),
    Argument("--to", called="until", help="Before then, written the same way. Default: now."),
    _PDF,
    _CSV,
    TO_FILE,
    summary="Show what became of the balance in a time, and why; or save it as PDF or CSV.",
    examples=[
        "gpuaas billing statement --from 2026-01-01 --to 2026-02-01",
        "gpuaas billing statement --from 7d --pdf --to-file week.pdf",
    ],
)
def statement_get(run: Run, *, pdf: bool, csv: bool, to_file: str | None, **asked: Any) -> None:
    org_id = names.org(run, asked["org"])
    query = StatementQuery(currency=asked["currency"], from_at=instant(asked["since"]), to_at=instant(asked["until"]))
    if _one_form(pdf=pdf, csv=csv):
        export = invoices.statement_export_pdf if pdf else invoices.statement_export_csv
        save(run, export(org_id, query), to_file)
        return
    call = invoices.statement_get(org_id, query)
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
    else:
        _show(run, decode(call, body))


@INVOICES.command(
    "list",
    ORG,
    Argument("--currency", help="Only of this currency."),
    LIMIT,
    ALL,
    summary="List invoices, newest first.",
)
def invoice_list(run: Run, *, org: str | None, currency: str | None, limit: int, all: bool) -> None:
    call = invoices.invoice_list(names.org(run, org), InvoiceListQuery(currency=currency))
    run.table(call, _INVOICES, limit=limit, all=all, empty="There is none yet: they are made after a month has ended.")


@INVOICES.command("get", _INVOICE, ORG, summary="Show an invoice as it was issued.")
def invoice_get(run: Run, *, invoice: str, org: str | None) -> None:
    org_id = names.org(run, org)
    call = invoices.invoice_get(org_id, _id(run, org_id, invoice))
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    found = decode(call, body)
    run.out.table(_INVOICES, [found.invoice], empty="")
    run.out.line("")
    _show(run, found.statement)


@INVOICES.command(
    "download",
    _INVOICE,
    ORG,
    _PDF,
    _CSV,
    TO_FILE,
    summary="Save an invoice as PDF or CSV.",
    examples=["gpuaas billing invoices download 2026-000017 --pdf --to-file january.pdf"],
)
def invoice_download(run: Run, *, invoice: str, org: str | None, pdf: bool, csv: bool, to_file: str | None) -> None:
    if not _one_form(pdf=pdf, csv=csv):
        raise UsageError("Which form?", "Say --pdf or --csv.")
    org_id = names.org(run, org)
    download = invoices.invoice_download_pdf if pdf else invoices.invoice_download_csv
    save(run, download(org_id, _id(run, org_id, invoice)), to_file)


@GROUP.command(
    "proof",
    ORG,
    summary="Prove your own books: what was paid, used and held agrees, and no entry was changed.",
    about="Ends with 1, and names what differs, if something does.",
)
def proof_get(run: Run, *, org: str | None) -> None:
    call = billing.proof_get(names.org(run, org))
    body = run.api.send_raw(call)
    found = decode(call, body)
    if run.out.json:
        run.out.raw(body)
    else:
        proven(run, found)
        run.out.note(f"{found.entries} {'entry was' if found.entries == 1 else 'entries were'} checked.")
    require(found)


def _one_form(*, pdf: bool, csv: bool) -> bool:
    if pdf and csv:
        raise UsageError("One form at a time.", "Say --pdf or --csv.")
    return pdf or csv


def _id(run: Run, org_id: UUID, text: str) -> UUID:
    found = names.as_id(text)
    if found is not None:
        return found
    for one in run.api.items(invoices.invoice_list(org_id, InvoiceListQuery())):
        if one.number == text:
            return one.id
    raise Stop(f"There is no invoice {text!r}.", "See them with: gpuaas billing invoices list", Exit.MISSING)


def _show(run: Run, found: StatementView) -> None:
    sums, out = found.sums, run.out
    lines = [
        ("balance before", found.opening_micros),
        ("paid in", sums.paid_in_micros),
        ("used", sums.used_micros),
        ("given back of use", sums.used_back_micros),
        ("credits", sums.given_micros),
        ("refunds", sums.refunded_micros),
        ("corrections", sums.corrected_micros),
        ("balance after", found.closing_micros),
    ]
    out.table([("", lambda line: line[0]), (found.currency, lambda line: format_micros(line[1]))], lines, empty="")
    out.line("")
    out.table(_USAGE, found.usage, empty="Nothing was used.")
    if found.entries:
        out.line("")
        out.table(_ENTRIES, found.entries, empty="")
    if found.unusable:
        out.line("")
        out.table(_UNUSABLE, found.unusable, empty="")
    if found.left_out:
        out.note(f"{found.left_out} more entries are in the sums: see `gpuaas billing ledger`.")
