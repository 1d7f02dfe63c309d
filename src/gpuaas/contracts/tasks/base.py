"""The order a task travels in, and the register of task types.

A task type is a frozen Struct with a name, a version and the type of its result; declaring one registers it, so the
schemas printed from the register are complete and a task outside of it can neither be sent nor run."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar
from uuid import UUID

import msgspec

PAYLOAD_TYPE = "application/vnd.gpuaas.task+json"
MAX_LIFE_SECONDS = 600
MAX_LOG = 64 * 1024


class TaskResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what a task answers with."""


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of a task's arguments. Arguments carry ids and facts; a secret in them is sealed to the node."""

    TYPE: ClassVar[str] = ""
    VERSION: ClassVar[int] = 1
    RESULT: ClassVar[type[TaskResult]]
    DEADLINE_SECONDS: ClassVar[int] = 60
    """How long it may run once started."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.TYPE:
            raise TypeError(f"task type {cls.__name__} has no TYPE")
        known = TASK_TYPES.setdefault((cls.TYPE, cls.VERSION), cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"task type {cls.TYPE} version {cls.VERSION} is declared twice")
        TASK_TYPES[cls.TYPE, cls.VERSION] = cls


TASK_TYPES: dict[tuple[str, int], type[Task]] = {}


class Order(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The signed payload. `sequence` counts a node's orders from 1 without a gap."""

    task_id: UUID
    type: str
    version: int
    node_id: UUID
    subject_id: UUID | None
    sequence: Annotated[int, msgspec.Meta(ge=1)]
    issued_at: datetime
    expires_at: datetime
    deadline_seconds: int
    correlation_id: str
    traceparent: str
    arguments: msgspec.Raw


class Outcome(StrEnum):
    DONE = "done"
    FAILED = "failed"
    """It was tried and did not work; `reason` says why."""
    REFUSED = "refused"
    """It was never tried: unknown type, expired, not for this node, out of sequence, a bad signature."""
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class Phase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step of a running task, reported live."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=60, pattern=r"^[a-z][a-z0-9_.-]*\Z")]
    at: datetime
    detail: Annotated[str, msgspec.Meta(max_length=500)] = ""


class Report(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a task ended. Posted until accepted; accepted once."""

    outcome: Outcome
    reason: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    code: Annotated[str, msgspec.Meta(max_length=60)] = ""
    started_at: datetime | None = None
    ended_at: datetime
    result: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))
    log: Annotated[str, msgspec.Meta(max_length=MAX_LOG)] = ""
