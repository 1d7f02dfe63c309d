"""Rows of health: quarantines of slots, faults, history."""

from datetime import datetime
from uuid import UUID

import msgspec


class SlotQuarantineRow(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    slot_id: UUID
    node_id: UUID
    serial: str
    reason: str
    detail: str
    strike: bool
    since: datetime
    return_task_id: UUID | None
    ended_at: datetime | None


class HealthRow(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    node_id: UUID
    serial: str
    kind: str
    good: bool
    code: str
    detail: str
    at: datetime


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the history to be."""

    serial: str
    kind: str
    good: bool
    code: str = ""
    detail: str = ""
