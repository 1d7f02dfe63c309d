"""Rows of timelines."""

from datetime import datetime
from uuid import UUID

import msgspec


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    phase: str
    detail: str
    source: str
    """`control`, or the name of the node that told of it."""
    actor: str
    correlation_id: str


class NodeTask(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    node_name: str
    type: str
    state: str
    created_at: datetime
    ended_at: datetime | None
    reason: str
    log: str
