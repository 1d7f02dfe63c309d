"""What placement is asked, what it looks at and what it answers."""

from datetime import datetime
from enum import StrEnum

import msgspec

from gpuaas.domains.inventory.models import Sku
from gpuaas.kit.ids import NodeId, SlotId


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    sku: Sku
    gpu_count: int
    """On each node."""
    node_count: int

    @property
    def gpus(self) -> int:
        """On all nodes."""
        return self.gpu_count * self.node_count

    @property
    def whole(self) -> bool:
        """Nodes with all their GPUs: no group of them has to be chosen."""
        return self.gpu_count == self.sku.gpus_per_node


class Candidate(msgspec.Struct, frozen=True):
    """A GPU that may be sold now, as far as one statement could see. By position: there are many of them."""

    slot_id: SlotId
    node_id: NodeId
    node_name: str
    serial: str
    gpu_index: int
    numa: int
    nvme: bool
    fabric: bool


class Group(msgspec.Struct, frozen=True):
    """GPUs of a node that share a NUMA group and are sold now: how many there are, and how many are free."""

    node_id: NodeId
    numa: int
    built: int
    free: int


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """Where on a node the GPUs would come from."""

    node_id: NodeId
    node_name: str
    numa: int | None
    """None: from all of the node."""
    free_on_node: int
    slots: tuple[SlotId, ...]
    """Those that are to be taken first, then those that would do as well."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    rooms: tuple[Room, ...]
    """One for each node."""
    summary: str
    """Why these."""


class Reason(StrEnum):
    """Why a GPU cannot be had, or not by this request."""

    HELD = "held"
    FRAGMENTED = "fragmented"
    """It is free, but there are not enough together."""
    CORDONED = "cordoned"
    DRAINED = "drained"
    SILENT = "silent"
    UNHEALTHY = "unhealthy"
    MISMATCH = "mismatch"
    QUARANTINED = "quarantined"
    UNPAIRED = "unpaired"
    """It has no disk or fabric device beside it, which the SKU needs."""
    OUT_OF_SERVICE = "out_of_service"
    TOO_LARGE = "too_large"
    """No nodes are built so that it could ever fit."""
    ABSENT = "absent"
    """There is no GPU of this SKU at all."""


class NoFit(msgspec.Struct, frozen=True, kw_only=True):
    counts: dict[Reason, int]
    """GPUs of the SKU by what keeps each from being had."""
    dominant: Reason
    summary: str
    """Why not, and what would help."""
    earliest_end: datetime | None
    """When the first lease on such GPUs ends, unless it is renewed."""
