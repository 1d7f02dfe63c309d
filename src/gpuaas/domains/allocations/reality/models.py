"""Rows of the comparison, and what was found."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.http.allocations import AllocationState, OrphanKind
from gpuaas.kit.ids import AllocationId, NodeId, OrphanId


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """The last heartbeat of a node that is online."""

    node_id: NodeId
    seen_at: datetime
    accounts: list[str]
    leases: str
    usage: str


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """An allocation, wherever it is."""

    allocation_id: AllocationId
    state: AllocationState
    changed_at: datetime


class HeldThere(msgspec.Struct, frozen=True, kw_only=True):
    node_id: NodeId
    allocation_id: AllocationId
    state: AllocationState
    changed_at: datetime
    serials: list[str]


class Orphan(msgspec.Struct, frozen=True, kw_only=True):
    id: OrphanId
    node_id: NodeId
    kind: OrphanKind
    name: str
    allocation_id: UUID | None
    detail: str
    first_seen_at: datetime
    last_seen_at: datetime
    told_at: datetime | None
    task_id: UUID | None
    ended_at: datetime | None


class Found(Orphan, frozen=True, kw_only=True):
    tell: bool
    """It is to be told of now, and was not before."""


class ShownOrphan(msgspec.Struct, frozen=True, kw_only=True):
    id: OrphanId
    node_id: NodeId
    node_name: str
    kind: OrphanKind
    name: str
    allocation_id: UUID | None
    detail: str
    first_seen_at: datetime
    last_seen_at: datetime
    task_id: UUID | None
