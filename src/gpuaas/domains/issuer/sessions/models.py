"""Rows of sessions."""

from datetime import datetime
from uuid import UUID

import msgspec


class Session(msgspec.Struct, frozen=True):
    id: UUID
    account_id: UUID
    auth_time: datetime
    expires_at: datetime
