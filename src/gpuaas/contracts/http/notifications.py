"""What people are told, over HTTP: notifications, what they want by email, and the mail that was or was not sent."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import PageQuery, Request, Response

KindName = Annotated[
    str,
    msgspec.Meta(
        min_length=3, max_length=60, pattern=r"^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$(?!\n)", examples=["allocation.idle"]
    ),
]


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class EmailWhen(StrEnum):
    ALWAYS = "always"
    OFFLINE = "offline"
    """Not while you are here: nobody asked with your credential in the last notifications.offline_minutes."""
    NEVER = "never"


class EmailState(StrEnum):
    QUEUED = "queued"
    NOT_CONFIGURED = "not_configured"
    """No mail server is set: it waits until one is, or its time is over."""
    SENT = "sent"
    FAILED = "failed"


class NotificationQuery(PageQuery, frozen=True, kw_only=True):
    unread: Annotated[bool, msgspec.Meta(description="Only those not read yet.")] = False
    kind: Annotated[KindName, msgspec.Meta(description="Only of this kind.")] | None = None


class NotificationView(Response, frozen=True, kw_only=True):
    id: UUID
    org_id: UUID
    kind: str
    severity: Severity
    title: str
    body: str
    subject_id: Annotated[UUID | None, msgspec.Meta(description="The allocation, payment or other thing it is about.")]
    link: Annotated[str, msgspec.Meta(description="Where one click does something about it; empty: nowhere.")]
    created_at: datetime
    read_at: datetime | None


class NotificationCount(Response, frozen=True, kw_only=True):
    unread: int


class NotificationsRead(Response, frozen=True, kw_only=True):
    read: Annotated[int, msgspec.Meta(description="How many were unread until now.")]


class PreferenceView(Response, frozen=True, kw_only=True):
    kind: str
    about: str
    severity: Severity
    email: EmailWhen
    default: EmailWhen
    mandatory: Annotated[bool, msgspec.Meta(description="It is always sent, whatever is wanted.")]


class PreferenceList(Response, frozen=True, kw_only=True):
    preferences: list[PreferenceView]


class PreferenceSet(Request, frozen=True, kw_only=True):
    kind: KindName
    email: Annotated[EmailWhen | None, msgspec.Meta(description="Null: as the default says.")] = None


class EmailQuery(PageQuery, frozen=True, kw_only=True):
    state: Annotated[EmailState, msgspec.Meta(description="Only those in this state.")] | None = None


class EmailView(Response, frozen=True, kw_only=True):
    """Mail to one person. What it says is not shown: its links are his."""

    id: UUID
    user_id: UUID
    org_id: UUID
    kind: str
    to_address: str
    state: EmailState
    state_since: datetime
    created_at: datetime
    next_at: Annotated[datetime, msgspec.Meta(description="When it is tried next, while it is queued.")]
    due_at: Annotated[datetime | None, msgspec.Meta(description="When it is given up.")]
    attempts: int
    last_error: str
