"""The keys that seal sensitive fields, as operators see them."""

from datetime import datetime
from uuid import UUID

from gpuaas.contracts.http.base import Reason, Request, Response


class DataKeyRotate(Request, frozen=True, kw_only=True):
    reason: Reason


class DataKeyView(Response, frozen=True, kw_only=True):
    id: UUID
    created_at: datetime
    retired_at: datetime | None
    """Since then it seals nothing new. None: it is the current one."""
    sealed_fields: int
    """How many fields are still sealed with it."""


class DataKeyList(Response, frozen=True, kw_only=True):
    keys: list[DataKeyView]
    """Newest first."""
