"""Rows of runs and their attempts."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec

from gpuaas.contracts.http.flows import FlowKind, FlowState
from gpuaas.kit.ids import RunId

HINT = "hint.flows"
"""What is said to workers when a run has something to do."""
CANCELLABLE = frozenset({FlowKind.ALLOCATION_PROVISION, FlowKind.ALLOCATION_START})
"""The others only ever make things safe: stopping one half-way would leave them unsafe."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    id: RunId
    kind: FlowKind
    version: int
    subject_id: UUID
    org_id: UUID | None
    state: FlowState
    state_since: datetime
    step: str
    passed: list[str]
    attempt: int
    memo: str
    lease_owner: str
    lease_until: datetime | None
    fence: int
    next_at: datetime
    due_at: datetime
    wakes: int
    error_code: str
    error: str
    cancel_requested_at: datetime | None
    cancel_reason: str
    correlation_id: str
    traceparent: str
    created_by: str
    created_at: datetime
    ended_at: datetime | None
    late: bool
    """Past the deadline of the step it stands at, by the database's clock."""


class Outcome(StrEnum):
    PASSED = "passed"
    WAITS = "waits"
    AGAIN = "again"
    FAILED = "failed"


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run stands after an attempt, and what the attempt came to."""

    attempted: list[str]
    """The steps that were tried, or the one taken back: all but the last passed."""
    to: FlowState
    step: str
    passed: list[str]
    attempt: int
    memo: dict[str, Any]
    version: int
    wait_seconds: float | None
    """Until it is looked at again, unless it is woken; None: at the step's deadline."""
    step_seconds: float | None
    """What the step it stands at may take from now on; None: it has been at it, and its deadline stays."""
    error_code: str
    error: str
    outcome: Outcome
    detail: str


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    direction: FlowState
    step: str
    outcome: str
    detail: str
    worker: str
    at: datetime
