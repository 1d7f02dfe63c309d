"""Usage as CSV: a line for each allocation and day; no cell that a spreadsheet would calculate."""

import csv
import io
from collections.abc import Iterable

from gpuaas.domains.audit.export import neutral
from gpuaas.domains.billing.usage.models import Detail
from gpuaas.kit.money import format_micros

COLUMNS = ("day", "project", "sku", "user", "allocation_id", "gpus", "seconds", "amount", "currency")


def csv_header() -> bytes:
    return _csv([COLUMNS])


def csv_lines(details: Iterable[Detail]) -> bytes:
    return _csv(_cells(one) for one in details)


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


def _csv(lines: Iterable[Iterable[str]]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n", quoting=csv.QUOTE_ALL).writerows(lines)
    return buffer.getvalue().encode()
