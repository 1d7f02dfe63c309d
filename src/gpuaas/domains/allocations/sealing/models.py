"""A data key as operators see it; the key itself stays sealed."""

from datetime import datetime
from uuid import UUID

import msgspec


class DataKey(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    created_at: datetime
    retired_at: datetime | None
    sealed_fields: int
    """How many fields it has sealed that were not sealed anew."""
