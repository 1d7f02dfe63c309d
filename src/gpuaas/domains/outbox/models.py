"""Rows of the outbox and of the dead letters."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.events.base import Envelope
from gpuaas.domains.outbox.states import DeadLetterState
from gpuaas.kit.ids import DeadLetterId, EventId


class OutboxEvent(msgspec.Struct, frozen=True):
    id: EventId
    stream: str
    name: str
    version: int
    org_id: UUID | None
    subject_id: UUID | None
    actor: str
    correlation_id: str
    traceparent: str
    payload: str
    created_at: datetime
    published_at: datetime | None

    @property
    def nats_subject(self) -> str:
        return f"{self.stream.lower()}.{self.name}"

    def envelope(self) -> Envelope:
        return Envelope(
            id=self.id,
            name=self.name,
            version=self.version,
            occurred_at=self.created_at,
            org_id=self.org_id,
            subject_id=self.subject_id,
            actor=self.actor,
            correlation_id=self.correlation_id,
            traceparent=self.traceparent,
            payload=msgspec.Raw(self.payload.encode()),
        )


class DeadLetter(msgspec.Struct, frozen=True):
    id: DeadLetterId
    consumer: str
    event_id: EventId
    event_name: str
    org_id: UUID | None
    correlation_id: str
    reason: str
    attempts: int
    state: DeadLetterState
    state_since: datetime
    note: str
    created_at: datetime


class Backlog(msgspec.Struct, frozen=True):
    """What waits to be published; counting stops at a bound."""

    unpublished: int
    oldest_seconds: float


class Survey(msgspec.Struct, frozen=True):
    """What the auditor found in a stretch of the outbox."""

    scanned_through: UUID | None
    whole: bool
    missing: list[EventId]


class Progress(msgspec.Struct, frozen=True):
    checked_through: UUID
    complete_through: UUID
