"""CSV that spreadsheets read: every cell quoted, and no text that they would calculate."""

import csv
import io
from collections.abc import Iterable

# What a spreadsheet takes for the beginning of a formula, also in its wide forms.
_FORMULA = frozenset("=+-@\t\r\n|%＝＋－＠")


def neutral(cell: str) -> str:
    """Text that no spreadsheet calculates, whatever a name or reason begins with."""
    return f"'{cell}" if cell[:1] in _FORMULA or cell.lstrip()[:1] in _FORMULA else cell


def csv_bytes(lines: Iterable[Iterable[str]]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n", quoting=csv.QUOTE_ALL).writerows(lines)
    return buffer.getvalue().encode()
