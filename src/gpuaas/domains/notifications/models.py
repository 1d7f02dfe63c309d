"""Rows of notifications."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.http.notifications import Severity
from gpuaas.kit.ids import LinkId, NotificationId, OrgId, UserId


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    id: NotificationId
    user_id: UserId
    org_id: OrgId
    event_id: UUID
    kind: str
    severity: Severity
    title: str
    body: str
    subject_id: UUID | None
    link_id: LinkId | None
    created_at: datetime
    read_at: datetime | None


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What one person is told, all made from one event."""

    notification_id: NotificationId
    user_id: UserId
    link_id: LinkId | None = None
    mute_id: LinkId | None = None
    email_id: UUID | None = None
    """None: not by email."""
    to_address: str = ""
    content: str = "{}"
    unusable: str = ""
    """Why no email can be sent to him."""
