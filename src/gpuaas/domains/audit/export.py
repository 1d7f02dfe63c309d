"""Audit rows as files. A cell that a spreadsheet would calculate is made text; a line is always one line."""

from collections.abc import Iterable

import msgspec

from gpuaas.domains.audit.models import SealedEntry
from gpuaas.kit.spreadsheet import csv_bytes, neutral

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
_ENCODER = msgspec.json.Encoder()


def csv_header() -> bytes:
    return csv_bytes([COLUMNS])


def csv_lines(entries: Iterable[SealedEntry]) -> bytes:
    return csv_bytes([neutral(_text(getattr(entry, column))) for column in COLUMNS] for entry in entries)


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
