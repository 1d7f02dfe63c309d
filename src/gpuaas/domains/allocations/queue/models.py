"""Rows of the queue: those who wait, those who hold, and where one stands."""

from datetime import datetime

import msgspec

from gpuaas.kit.ids import AllocationId, NodeId, OrgId, ProjectId, SkuId


class Waiting(msgspec.Struct, frozen=True):
    """A request in the queue, with what its organisation has had of the SKU lately."""

    id: AllocationId
    org_id: OrgId
    gpu_count: int
    node_count: int
    priority: int
    lease_seconds: int
    waiting_since: datetime
    used_gpu_seconds: float

    @property
    def gpus(self) -> int:
        return self.gpu_count * self.node_count


class Lease(msgspec.Struct, frozen=True):
    """GPUs of one group that somebody holds until then, at the latest."""

    node_id: NodeId
    numa: int
    gpus: int
    state: str
    expires_at: datetime


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """A request as people know it."""

    id: AllocationId
    org_id: OrgId
    project_id: ProjectId
    name: str
    sku_id: SkuId
    sku_name: str


class Position(msgspec.Struct, frozen=True, kw_only=True):
    entry: Waiting
    position: int
    """1: next."""
    waiting: int
    estimated_start: datetime | None
