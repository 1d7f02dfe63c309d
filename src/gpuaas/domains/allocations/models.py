"""Rows of allocations and of what they hold."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.http.allocations import AllocationState, Isolation, StopReason
from gpuaas.domains.allocations.states import HoldState
from gpuaas.kit.ids import AllocationId, HoldId, NodeId, OrgId, ProjectId, SkuId, SlotId


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    id: AllocationId
    org_id: OrgId
    project_id: ProjectId
    name: str
    sku_id: SkuId
    gpu_count: int
    """On each node."""
    node_count: int
    isolation: Isolation
    price_id: UUID
    tags: list[str]
    requested_by: str
    requested_by_id: UUID | None
    ssh_keys: list[str]
    state: AllocationState
    state_since: datetime
    due_at: datetime | None
    version: int
    priority: int
    placement: str
    connection_sealed: bytes | None
    lease_seconds: int
    active_at: datetime | None
    expires_at: datetime | None
    ends_at: datetime | None
    expiry_warned_at: datetime | None
    idle_since: datetime | None
    idle_warned_at: datetime | None
    reclaim_at: datetime | None
    degraded_since: datetime | None
    degraded_reason: str
    stop_reason: str
    """Of StopReason; empty: it is not stopped."""
    stopped_by: str
    stop_requested_at: datetime | None
    stop_due_at: datetime | None
    """When it is released, if it is not started before; None: with its lease."""
    stop_unpaid: bool
    """Stopped by its own people, who could not pay for it meanwhile: it is not charged."""
    stop_after: datetime | None
    """What failed last is not tried again before."""
    release_requested_at: datetime | None
    release_reason: str
    released_by: str
    forced: bool
    force_attempts: int
    force_after: datetime | None
    ended_at: datetime | None
    failure_code: str
    failure: str
    correlation_id: str
    created_at: datetime

    @property
    def gpus(self) -> int:
        """On all nodes."""
        return self.gpu_count * self.node_count

    @property
    def stopped_for_money(self) -> bool:
        return self.stop_reason in (StopReason.BALANCE, StopReason.BUDGET)


class NewAllocation(msgspec.Struct, frozen=True, kw_only=True):
    id: AllocationId
    org_id: OrgId
    project_id: ProjectId
    name: str
    sku_id: SkuId
    gpu_count: int
    node_count: int
    isolation: Isolation
    price_id: UUID
    tags: list[str]
    requested_by: str
    requested_by_id: UUID | None
    ssh_keys: list[str]
    lease_seconds: int
    queue_seconds: float
    correlation_id: str


class Shown(msgspec.Struct, frozen=True):
    """An allocation with the names of what it is about, in the order of the statement that reads it."""

    id: AllocationId
    org_id: OrgId
    project_id: ProjectId
    name: str
    sku_id: SkuId
    sku_name: str
    region: str
    gpu_model: str
    gpu_count: int
    node_count: int
    isolation: Isolation
    currency: str
    micros_per_gpu_hour: int
    tags: list[str]
    requested_by: str
    state: AllocationState
    state_since: datetime
    due_at: datetime | None
    degraded_since: datetime | None
    degraded_reason: str
    created_at: datetime
    active_at: datetime | None
    expires_at: datetime | None
    ends_at: datetime | None
    reclaim_at: datetime | None
    release_requested_at: datetime | None
    released_by: str
    release_reason: str
    ended_at: datetime | None
    failure_code: str
    failure: str
    stop_reason: str
    stopped_by: str
    stop_unpaid: bool
    version: int


class ShownGpu(msgspec.Struct, frozen=True, kw_only=True):
    node_id: NodeId
    node_name: str
    address: str
    gpu_index: int
    serial: str
    model: str
    numa: int
    state: str
    quarantine: str


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for in a list; None: whatever."""

    state: AllocationState | None = None
    live: bool = False
    sku_id: UUID | None = None
    tag: str | None = None
    org_id: UUID | None = None
    node_id: UUID | None = None


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    org_id: OrgId
    allocation_id: AllocationId
    node_id: NodeId
    task_id: UUID
    serials: list[str]
    passed: bool
    detail: str


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """How to log in on one node. Sealed at rest."""

    node_id: NodeId
    login: str
    host: str
    port: int
    host_keys: list[str]


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    id: HoldId
    org_id: OrgId
    allocation_id: AllocationId
    slot_id: SlotId
    node_id: NodeId
    serial: str
    state: HoldState
    state_since: datetime
    due_at: datetime | None
    held_at: datetime
    ended_at: datetime | None


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """Slots that were chosen and are held now, and why these."""

    holds: list[Hold]
    explanation: str


def login_of(allocation_id: UUID) -> str:
    """The account's name on its nodes: derived, so that whoever finds it knows whose it is."""
    return f"g{allocation_id.hex[:12]}{allocation_id.hex[-15:]}"
