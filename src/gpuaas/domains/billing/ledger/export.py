"""Entries of the ledger as CSV: amounts to the last place, no cell that a spreadsheet would calculate."""

from collections.abc import Iterable

from gpuaas.domains.billing.ledger.models import Entry
from gpuaas.kit.money import format_micros
from gpuaas.kit.spreadsheet import csv_bytes, neutral

COLUMNS = (
    "number",
    "at",
    "transaction_id",
    "kind",
    "amount",
    "balance",
    "currency",
    "subject_id",
    "reason",
    "reverses_id",
    "actor",
)


def csv_header() -> bytes:
    return csv_bytes([COLUMNS])


def csv_lines(entries: Iterable[Entry]) -> bytes:
    return csv_bytes(_cells(entry) for entry in entries)


def _cells(entry: Entry) -> list[str]:
    """Numbers are ours and stay numbers, the minus before them included; texts are made harmless."""
    return [
        str(entry.number),
        entry.at.isoformat(),
        str(entry.id),
        entry.kind,
        format_micros(entry.amount_micros),
        format_micros(entry.balance_micros),
        entry.currency,
        str(entry.subject_id or ""),
        neutral(entry.reason),
        str(entry.reverses_id or ""),
        neutral(entry.actor),
    ]
