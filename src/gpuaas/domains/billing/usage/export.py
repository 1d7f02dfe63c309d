"""Usage as CSV: a line for each allocation and day; no cell that a spreadsheet would calculate."""

from collections.abc import Iterable

from gpuaas.domains.billing.usage.models import Detail
from gpuaas.kit.money import format_micros
from gpuaas.kit.spreadsheet import csv_bytes, neutral

COLUMNS = ("day", "project", "sku", "user", "allocation_id", "gpus", "seconds", "amount", "currency")


def csv_header() -> bytes:
    return csv_bytes([COLUMNS])


def csv_lines(details: Iterable[Detail]) -> bytes:
    return csv_bytes(_cells(one) for one in details)


def _cells(one: Detail) -> list[str]:
    """Numbers are ours and stay numbers, the minus before them included; texts are made harmless."""
    return [
        one.day.isoformat(),
        neutral(one.project),
        neutral(one.sku),
        neutral(one.user),
        str(one.allocation_id),
        str(one.gpus),
        str(one.seconds),
        format_micros(one.micros),
        one.currency,
    ]
