"""Usage as it is summed up."""

from datetime import date, datetime
from uuid import UUID

import msgspec

from gpuaas.kit.ids import OrgId


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which usage of an organisation is asked for: charged from an instant on, before another."""

    org_id: OrgId
    from_at: datetime
    to_at: datetime
    project_id: UUID | None = None
    sku_id: UUID | None = None
    user_id: UUID | None = None


class Line(msgspec.Struct, frozen=True, kw_only=True):
    day: date | None
    project_id: UUID | None
    sku_id: UUID | None
    user_id: UUID | None
    name: str
    currency: str
    gpu_seconds: int
    micros: int


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """All that was charged for one allocation on one day."""

    day: date
    project: str
    sku: str
    user: str
    allocation_id: UUID
    gpus: int
    seconds: int
    micros: int
    currency: str
