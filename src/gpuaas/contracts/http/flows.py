"""Flows as operators see them: which stories are under way, where each stands, and what every attempt came to."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import PageQuery, Reason, Request, Response


class FlowKind(StrEnum):
    """Every flow there is. A test holds that each has its steps."""

    ALLOCATION_PROVISION = "allocation.provision"
    ALLOCATION_STOP = "allocation.stop"
    ALLOCATION_START = "allocation.start"
    ALLOCATION_RELEASE = "allocation.release"
    PAYMENT_REFUND = "payment.refund"


class FlowState(StrEnum):
    FORWARD = "forward"
    UNDOING = "undoing"
    """A step failed, or the run was cancelled: what was done is being taken back."""
    DONE = "done"
    UNDONE = "undone"
    """It failed, and nothing of it is left."""
    SURRENDERED = "surrendered"
    """It failed and could not all be taken back: what is left was put where it can do no harm."""


class FlowQuery(PageQuery, frozen=True, kw_only=True):
    state: Annotated[FlowState, msgspec.Meta(description="Only those in this state.")] | None = None
    kind: Annotated[FlowKind, msgspec.Meta(description="Only of this kind.")] | None = None
    subject_id: Annotated[UUID, msgspec.Meta(description="Only those of this subject.")] | None = None


class FlowAbort(Request, frozen=True, kw_only=True):
    reason: Reason


class FlowView(Response, frozen=True, kw_only=True):
    id: UUID
    kind: FlowKind
    version: int
    subject_id: UUID
    org_id: UUID | None
    state: FlowState
    state_since: datetime
    step: str
    passed: list[str]
    attempt: int
    next_at: datetime
    due_at: datetime
    worker: str
    """Who acts on it now; empty: nobody."""
    error_code: str
    error: str
    cancel_reason: str
    correlation_id: str
    created_at: datetime
    ended_at: datetime | None


class FlowAttempt(Response, frozen=True, kw_only=True):
    at: datetime
    direction: FlowState
    step: str
    outcome: str
    detail: str
    worker: str


class FlowDetail(FlowView, frozen=True, kw_only=True):
    attempts: list[FlowAttempt]
    """The last two hundred, oldest first."""
