"""Dead letters over HTTP."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import PageQuery, Reason, Request, Response

DeadLetterStateName = Literal["open", "replaying", "resolved", "discarded"]
ConsumerName = Annotated[
    str,
    msgspec.Meta(
        min_length=3,
        max_length=102,
        pattern=r"^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$(?!\n)",
        examples=["issuer.sessions_end"],
    ),
]


class DeadLetterQuery(PageQuery, frozen=True, kw_only=True):
    state: Annotated[DeadLetterStateName, msgspec.Meta(description="Only those in this state.")] | None = None
    consumer: ConsumerName | None = None


class DeadLetterDiscard(Request, frozen=True, kw_only=True):
    reason: Reason


class DeadLetterView(Response, frozen=True, kw_only=True):
    """An event one consumer could not handle."""

    id: UUID
    consumer: str
    event_id: UUID
    event_name: str
    org_id: UUID | None
    correlation_id: str
    reason: str
    attempts: int
    state: DeadLetterStateName
    state_since: datetime
    note: str
    created_at: datetime


class DeadEvent(Response, frozen=True, kw_only=True):
    """What happened, with whatever looks like a secret taken out."""

    occurred_at: datetime
    stream: str
    version: int
    actor: str
    subject_id: UUID | None
    payload: dict[str, Any]


class DeadLetterDetail(DeadLetterView, frozen=True, kw_only=True):
    event: DeadEvent | None
    """Null once the event itself is past its retention."""
