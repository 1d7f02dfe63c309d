"""Rows of nodes."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.http.nodes import Liveness, NodeState
from gpuaas.kit.ids import NodeId


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node with what its agent said last."""

    id: NodeId
    name: str
    region: str
    sku_id: UUID
    address: str
    labels: str
    tags: list[str]
    state: NodeState
    state_since: datetime
    cordoned: bool
    drained: bool
    generation: int
    differences: list[str]
    inspected_at: datetime | None
    host_healthy: bool | None
    host_detail: str
    checked_at: datetime | None
    quarantine_reason: str | None
    quarantine_detail: str
    quarantined_at: datetime | None
    returned_at: datetime | None
    enrolled_at: datetime | None
    created_at: datetime
    liveness: Liveness
    seen_at: datetime | None
    agent_version: str
    boot_id: str
    observed_generation: int
    accounts: list[str]


class GpuCount(msgspec.Struct, frozen=True):
    """Of a node: how many are there and not in quarantine, and how many its SKU promises."""

    usable: int
    expected: int


class NewNode(msgspec.Struct, frozen=True, kw_only=True):
    id: NodeId
    name: str
    region: str
    sku_id: UUID
    address: str
    labels: dict[str, str]
    tags: list[str]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for in the list of nodes; None: whatever."""

    state: NodeState | None = None
    region: str | None = None
    sku_id: UUID | None = None
    label_name: str | None = None
    labels: dict[str, str] | None = None
    liveness: Liveness | None = None
    health: str | None = None


class Addresses(msgspec.Struct, frozen=True, kw_only=True):
    """Where people, programs and new agents reach the API. Put into the parts by the program's main."""

    public_url: str
