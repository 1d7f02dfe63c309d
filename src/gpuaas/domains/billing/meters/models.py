"""Meters and what they have come to."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec

from gpuaas.kit.ids import OrgId, ProjectId, SkuId


class Cause(StrEnum):
    """What keeps a meter from running. Each ends by itself; it runs when none lasts."""

    FAULT = "fault"
    STOP = "stop"


class MeterWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A meter to be: of what, for whom, at which price version."""

    subject_id: UUID
    org_id: OrgId
    project_id: ProjectId
    sku_id: SkuId
    gpus: int
    price_id: UUID
    micros_per_gpu_hour: int
    currency: str
    asked_by: str
    asked_by_id: UUID | None = None


class Meter(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    org_id: OrgId
    project_id: ProjectId
    subject_id: UUID
    sku_id: SkuId
    gpus: int
    price_id: UUID
    micros_per_hour: int
    currency: str
    asked_by: str
    asked_by_id: UUID | None
    opened_at: datetime
    closed_at: datetime | None
    close_reason: str
    billed_number: int
    billed_until: datetime
    billed_seconds: int
    billed_micros: int
    settled_at: datetime | None


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What something has cost so far, to the second, whether it is posted yet or not."""

    seconds: int
    micros: int
    posted_micros: int
    micros_per_hour: int
    currency: str
    paused: bool
    opened_at: datetime
    closed_at: datetime | None


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """The same of one of many, with why it stands still, if it does."""

    subject_id: UUID
    seconds: int
    micros: int
    currency: str
    closed_at: datetime | None
    paused_since: datetime | None
    paused_reason: str
    fault_since: datetime | None
    fault_reason: str


class Burn(msgspec.Struct, frozen=True, kw_only=True):
    """What an organisation's running meters cost an hour, and what they owe that is not posted."""

    org_id: OrgId
    currency: str
    meters: int
    micros_per_hour: int
    unposted_micros: int


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """What one batch of a pass did, and where it ended."""

    last_org: UUID | None
    last_meter: UUID | None
    looked: int
    posted: int
