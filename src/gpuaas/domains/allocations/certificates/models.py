"""Rows of certificates."""

from datetime import datetime
from uuid import UUID

import msgspec


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    org_id: UUID
    allocation_id: UUID
    node_id: UUID
    serials: list[str]
    key_id: str
    envelope: str
    issued_at: datetime
