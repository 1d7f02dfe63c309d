"""Rows of lifetimes."""

from datetime import datetime

import msgspec

from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.domains.allocations.lifetime.condition import HeldGpu
from gpuaas.kit.ids import AllocationId, OrgId, ProjectId


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A project with active allocations, to ask the policy about."""

    org_id: OrgId
    project_id: ProjectId


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """An active allocation, what was noted of its use, and what its nodes measured lately."""

    id: AllocationId
    org_id: OrgId
    project_id: ProjectId
    idle_since: datetime | None
    reclaim_at: datetime | None
    known: bool
    percent: float
    now: datetime


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """An active allocation and what it holds."""

    id: AllocationId
    org_id: OrgId
    project_id: ProjectId
    state: AllocationState
    degraded: bool
    degraded_reason: str
    held: list[HeldGpu]
