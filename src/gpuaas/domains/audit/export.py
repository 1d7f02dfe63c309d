"""Audit rows as files. A cell that a spreadsheet would calculate is made text; a line is always one line."""

import csv
import io
from collections.abc import Iterable

import msgspec

from gpuaas.domains.audit.models import SealedEntry

COLUMNS = (
    "id",
    "at",
    "action",
    "operation",
    "actor_kind",
    "actor_id",
    "actor_name",
    "org_id",
    "project_id",
    "subject_id",
    "correlation_id",
    "client_ip",
    "details",
    "seq",
    "prev_hash",
    "hash",
)
# What a spreadsheet takes for the beginning of a formula, also in its wide forms.
_FORMULA = frozenset("=+-@\t\r\n|%＝＋－＠")
_ENCODER = msgspec.json.Encoder()


def neutral(cell: str) -> str:
    """Text that no spreadsheet calculates, whatever a name or reason begins with."""
    return f"'{cell}" if cell[:1] in _FORMULA or cell.lstrip()[:1] in _FORMULA else cell


def csv_header() -> bytes:
    return _csv([COLUMNS])


def csv_lines(entries: Iterable[SealedEntry]) -> bytes:
    return _csv([neutral(_text(getattr(entry, column))) for column in COLUMNS] for entry in entries)


def json_lines(entries: Iterable[SealedEntry]) -> bytes:
    """As the columns are, with the details as the object they are and hashes in hexadecimal."""
    return b"".join([_ENCODER.encode({name: _json(entry, name) for name in COLUMNS}) + b"\n" for entry in entries])


def _json(entry: SealedEntry, name: str) -> object:
    if name == "details":
        return msgspec.Raw(entry.details.encode())
    value = getattr(entry, name)
    return value.hex() if isinstance(value, bytes) else value


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, str) else str(msgspec.to_builtins(value))


def _csv(lines: Iterable[Iterable[str]]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n", quoting=csv.QUOTE_ALL).writerows(lines)
    return buffer.getvalue().encode()
