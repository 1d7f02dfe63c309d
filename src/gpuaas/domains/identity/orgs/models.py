"""Rows of organisations."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.permissions import Role
from gpuaas.kit.ids import OrgId


class Org(msgspec.Struct, frozen=True):
    id: OrgId
    name: str
    title: str
    personal_of: UUID | None
    created_at: datetime
    deleted_at: datetime | None
    role: Role | None = None
    """Of the one who asks, where that was asked too."""
