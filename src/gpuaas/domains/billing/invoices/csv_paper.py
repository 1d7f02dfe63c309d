"""A paper as CSV: a line for each sum, use, entry and time that was not charged; no cell that a spreadsheet would
calculate. The same document gives the same bytes."""

import csv
import io
from collections.abc import Iterator

from gpuaas.contracts.http.invoices import StatementView
from gpuaas.domains.billing.invoices.models import Document
from gpuaas.kit.money import format_micros
from gpuaas.kit.spreadsheet import neutral

COLUMNS = (
    "line",
    "at",
    "until",
    "project",
    "cost_centre",
    "sku",
    "price_id",
    "price_per_gpu_hour",
    "gpu_seconds",
    "about",
    "reason",
    "amount",
    "currency",
)
SUMS = {
    "paid_in_micros": "paid in",
    "used_micros": "charged for use",
    "used_back_micros": "given back of use",
    "given_micros": "credits",
    "refunded_micros": "refunds",
    "corrected_micros": "corrections",
}


def render(document: Document) -> bytes:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, restval="", lineterminator="\r\n", quoting=csv.QUOTE_ALL)
    writer.writeheader()
    for line in _lines(document):
        writer.writerow(line | {"currency": document.statement.currency})
    return buffer.getvalue().encode()


def _lines(document: Document) -> Iterator[dict[str, str]]:
    statement = document.statement
    about = neutral(statement.org_title or statement.org_name)
    since, until = statement.from_at.isoformat(), statement.to_at.isoformat()
    if document.number:
        yield {"line": "invoice", "at": document.issued_at.isoformat(), "about": document.number, "reason": about}
    yield {"line": "opening balance", "at": since, "about": about, "amount": format_micros(statement.opening_micros)}
    for field, name in SUMS.items():
        amount = format_micros(getattr(statement.sums, field))
        yield {"line": "sum", "at": since, "until": until, "about": name, "amount": amount}
    yield {"line": "closing balance", "at": until, "about": about, "amount": format_micros(statement.closing_micros)}
    yield from _details(statement)


def _details(statement: StatementView) -> Iterator[dict[str, str]]:
    for use in statement.usage:
        yield {
            "line": "use",
            "project": neutral(use.project),
            "cost_centre": neutral(use.cost_centre),
            "sku": neutral(use.sku),
            "price_id": str(use.price_id),
            "price_per_gpu_hour": format_micros(use.micros_per_gpu_hour),
            "gpu_seconds": str(use.gpu_seconds),
            "amount": format_micros(-use.micros),
        }
    for entry in statement.entries:
        yield {
            "line": neutral(entry.kind),
            "at": entry.at.isoformat(),
            "about": str(entry.subject_id or ""),
            "reason": neutral(entry.reason),
            "amount": format_micros(entry.micros),
        }
    for time in statement.unusable:
        yield {
            "line": "not charged",
            "at": time.from_at.isoformat(),
            "until": "" if time.until_at is None else time.until_at.isoformat(),
            "project": neutral(time.project),
            "sku": neutral(time.sku),
            "about": str(time.allocation_id),
            "reason": neutral(f"{time.reason}: {time.seconds} seconds, worth {format_micros(time.micros)}"),
        }
