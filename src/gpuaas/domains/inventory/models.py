"""Rows of SKUs, prices and slots."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.http.inventory import Shape, SkuState
from gpuaas.kit.ids import NodeId, SkuId, SlotId


class Sku(msgspec.Struct, frozen=True, kw_only=True):
    id: SkuId
    name: str
    title: str
    shape: Shape
    gpu_vendor: str
    gpu_model: str
    gpu_memory_bytes: int
    gpus_per_node: int
    allowed_gpu_counts: list[int]
    whole_node_only: bool
    needs_nvme: bool
    needs_fabric: bool
    region: str
    state: SkuState
    created_at: datetime


class Price(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    sku_id: SkuId
    currency: str
    micros_per_gpu_hour: int
    valid_from: datetime
    set_by: str
    created_at: datetime


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    id: SlotId
    node_id: NodeId
    serial: str
    gpu_index: int
    address: str
    vendor: str
    model: str
    memory_bytes: int
    numa: int
    iommu_group: int
    nvme_address: str | None
    fabric_address: str | None
    present: bool
    first_seen_at: datetime
    last_seen_at: datetime
    sku_id: SkuId
    held: bool
    """Somebody has it: written by the database, from the holds."""
    dirty: bool
    """Its last tenant's data may be in it: given back without a proof that it is clean, and not cleaned since."""
