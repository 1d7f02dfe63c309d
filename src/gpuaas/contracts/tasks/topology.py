"""What a node is made of and how it is, as its agent observes it. Facts only: what they mean is decided elsewhere."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

Text = Annotated[str, msgspec.Meta(max_length=200)]
Address = Annotated[str, msgspec.Meta(max_length=32, pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 20)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 60)]


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what an agent says: known fields only."""


class Gpu(Strict, frozen=True, kw_only=True):
    index: Annotated[int, msgspec.Meta(ge=0, le=63)]
    address: Address
    vendor: Text
    model: Text
    serial: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    memory_bytes: Bytes
    numa: Annotated[int, msgspec.Meta(ge=-1, le=63)]
    iommu_group: Annotated[int, msgspec.Meta(ge=-1, le=1 << 20)] = -1
    driver: Text = ""
    nvme: Address | None = None
    """The NVMe device paired with this GPU, by locality."""
    fabric: Address | None = None
    """The InfiniBand device or virtual function paired with it."""


class Nvme(Strict, frozen=True, kw_only=True):
    address: Address
    serial: Text
    model: Text
    size_bytes: Bytes
    numa: Annotated[int, msgspec.Meta(ge=-1, le=63)]


class Fabric(Strict, frozen=True, kw_only=True):
    address: Address
    kind: Text
    guid: Text
    numa: Annotated[int, msgspec.Meta(ge=-1, le=63)]
    virtual: bool


class Topology(Strict, frozen=True, kw_only=True):
    hostname: Text
    os: Text
    kernel: Text
    boot_id: Text
    cpu_model: Text
    cpu_count: Count
    memory_bytes: Bytes
    numa_nodes: Annotated[int, msgspec.Meta(ge=1, le=64)]
    iommu: bool
    gpus: Annotated[list[Gpu], msgspec.Meta(max_length=64)]
    nvmes: Annotated[list[Nvme], msgspec.Meta(max_length=128)]
    fabrics: Annotated[list[Fabric], msgspec.Meta(max_length=256)]
    driver_version: Text = ""
    containers: Text = ""
    libvirt: Text = ""


class FaultKind(StrEnum):
    """What a driver's fault means: the application's own, gone after a reset, or the hardware."""

    APPLICATION = "application"
    RESETTABLE = "resettable"
    HARDWARE = "hardware"


class GpuFault(Strict, frozen=True, kw_only=True):
    serial: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    kind: FaultKind
    code: Annotated[str, msgspec.Meta(max_length=40)]
    """As the driver names it: 'XID 79'."""
    detail: Annotated[str, msgspec.Meta(max_length=500)] = ""
    at: datetime


class Check(Strict, frozen=True, kw_only=True):
    name: Annotated[str, msgspec.Meta(max_length=60)]
    passed: bool
    detail: Annotated[str, msgspec.Meta(max_length=500)] = ""


class GpuHealth(Strict, frozen=True, kw_only=True):
    serial: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    healthy: bool
    checks: Annotated[list[Check], msgspec.Meta(max_length=32)]
    temperature_c: float | None = None
    power_w: float | None = None
    ecc_uncorrected: Count = 0


class HostHealth(Strict, frozen=True, kw_only=True):
    healthy: bool
    checks: Annotated[list[Check], msgspec.Meta(max_length=32)]
    gpus: Annotated[list[GpuHealth], msgspec.Meta(max_length=64)]
    faults: Annotated[list[GpuFault], msgspec.Meta(max_length=64)] = []
