"""Rows of emails, and what one says."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.http.notifications import EmailState, Severity
from gpuaas.kit.ids import EmailId, LinkId, OrgId, UserId


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed to write it, the same each time. Links are named, not written out: they are secrets."""

    title: str
    severity: Severity
    name: str
    sentences: list[str]
    facts: list[tuple[str, str]]
    label: str = ""
    link_id: LinkId | None = None
    mute_id: LinkId | None = None


class Email(msgspec.Struct, frozen=True, kw_only=True):
    id: EmailId
    user_id: UserId
    org_id: OrgId
    notification_id: UUID
    kind: str
    to_address: str
    content: str
    state: EmailState
    state_since: datetime
    created_at: datetime
    next_at: datetime
    due_at: datetime | None
    lease_until: datetime | None
    attempts: int
    last_error: str


class Waiting(msgspec.Struct, frozen=True):
    """How much mail there is that was not sent, and for how long."""

    queued: int
    oldest_queued_seconds: float
    not_configured: int
    failed: int
    """In the last day."""
