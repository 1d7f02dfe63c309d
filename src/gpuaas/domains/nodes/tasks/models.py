"""Rows of tasks."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.http.nodes import TaskState
from gpuaas.kit.ids import NodeId, TaskId


class TaskRow(msgspec.Struct, frozen=True, kw_only=True):
    """A task without its envelope, result and log, which can be large."""

    id: TaskId
    node_id: NodeId
    type: str
    version: int
    subject_id: UUID | None
    arguments: str
    deadline_seconds: int
    state: TaskState
    state_since: datetime
    due_at: datetime
    sequence: int | None
    issued_at: datetime | None
    expires_at: datetime | None
    delivered_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    reported_at: datetime | None
    cancel_requested_at: datetime | None
    reason: str
    code: str
    correlation_id: str
    traceparent: str
    created_by: str
    created_at: datetime


class NewTask(msgspec.Struct, frozen=True, kw_only=True):
    node_id: NodeId
    type: str
    version: int
    subject_id: UUID | None
    arguments: str
    deadline_seconds: int
    correlation_id: str
    traceparent: str


class TaskStory(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a task."""

    result: str | None
    log: str
    report_hash: bytes | None
    reported_outcome: str | None


class PhaseRow(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    at: datetime
    detail: str
    told_at: datetime


class Signed(msgspec.Struct, frozen=True, kw_only=True):
    """What signing adds to a task."""

    id: TaskId
    sequence: int
    envelope: str
    issued_at: datetime
    expires_at: datetime


Place = tuple[UUID, int]
"""A node, and the number from which on it asks."""


class Delivered(msgspec.Struct, frozen=True):
    node_id: UUID
    sequence: int
    envelope: str


class Peek(msgspec.Struct, frozen=True, kw_only=True):
    """What a claim would find."""

    node_id: UUID
    next_sequence: int
    accepted: int
    last_issued: int
    waiting: bool
    cancels: bool


class TaskKey(msgspec.Struct, frozen=True, kw_only=True):
    key_id: str
    public_key: str
    statement: str | None
    valid_from: datetime
    valid_until: datetime | None
