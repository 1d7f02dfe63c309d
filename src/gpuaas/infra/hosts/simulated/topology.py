"""Topologies from files: what each kind of device is, once, and where each one sits. Serial numbers follow from a seed,
so the same node has the same hardware after every start, and no two nodes share any."""

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Annotated

import msgspec

from gpuaas.contracts.tasks.topology import Address, Fabric, Gpu, Nvme, Topology

SHIPPED = Path(__file__).parent / "topologies"


class TopologyRefused(ValueError):
    """The file does not describe a host. One line."""


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class _GpuKind(_Strict, frozen=True, forbid_unknown_fields=True):
    vendor: str
    model: str
    memory_bytes: int
    driver: str = ""
    serial_prefix: str = "SIM"


class _Place(_Strict, frozen=True, forbid_unknown_fields=True):
    address: Address
    numa: int = 0
    nvme: Address | None = None
    fabric: Address | None = None
    iommu_group: int = -1


class _NvmeKind(_Strict, frozen=True, forbid_unknown_fields=True):
    model: str
    size_bytes: int


class _FabricKind(_Strict, frozen=True, forbid_unknown_fields=True):
    kind: str
    virtual: bool = True


class Description(_Strict, frozen=True, forbid_unknown_fields=True):
    """A topology file."""

    os: str
    kernel: str
    cpu_model: str
    cpu_count: int
    memory_bytes: int
    gpu: _GpuKind
    gpus: Annotated[list[_Place], msgspec.Meta(max_length=64)]
    numa_nodes: int = 1
    iommu: bool = True
    driver_version: str = ""
    containers: str = ""
    libvirt: str = ""
    nvme: _NvmeKind | None = None
    nvmes: Annotated[list[_Place], msgspec.Meta(max_length=128)] = []
    fabric: _FabricKind | None = None
    fabrics: Annotated[list[_Place], msgspec.Meta(max_length=256)] = []


def shipped() -> list[str]:
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def read_description(name: str) -> Description:
    """A shipped topology by its name, or a file (TOML, or JSON by its suffix)."""
    path = SHIPPED / f"{name}.toml" if name in shipped() else Path(name)
    try:
        text = path.read_text()
        raw = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        return msgspec.convert(raw, Description)
    except OSError as error:
        known = ", ".join(shipped())
        raise TopologyRefused(f"cannot read the topology {name}: {error.strerror}; shipped are {known}") from None
    except ValueError as error:  # broken TOML or JSON, or another shape
        raise TopologyRefused(f"the topology {path} is not as it must be: {error}") from None


def build(description: Description, *, hostname: str, seed: str, boot_id: str) -> Topology:
    """This host's hardware, serial numbers and all."""
    try:
        topology = Topology(
            hostname=hostname,
            os=description.os,
            kernel=description.kernel,
            boot_id=boot_id,
            cpu_model=description.cpu_model,
            cpu_count=description.cpu_count,
            memory_bytes=description.memory_bytes,
            numa_nodes=description.numa_nodes,
            iommu=description.iommu,
            driver_version=description.driver_version,
            containers=description.containers,
            libvirt=description.libvirt,
            gpus=_gpus(description, seed),
            nvmes=_nvmes(description, seed),
            fabrics=_fabrics(description, seed),
        )
        return msgspec.json.decode(msgspec.json.encode(topology), type=Topology)
    except msgspec.ValidationError as error:
        raise TopologyRefused(f"the topology is not one a host can have: {error}") from None


def _gpus(description: Description, seed: str) -> list[Gpu]:
    kind = description.gpu
    return [
        Gpu(
            index=index,
            address=place.address,
            vendor=kind.vendor,
            model=kind.model,
            driver=kind.driver,
            serial=_serial(seed, kind.serial_prefix, index),
            memory_bytes=kind.memory_bytes,
            numa=place.numa,
            iommu_group=place.iommu_group,
            nvme=place.nvme,
            fabric=place.fabric,
        )
        for index, place in enumerate(description.gpus)
    ]


def _nvmes(description: Description, seed: str) -> list[Nvme]:
    kind = description.nvme
    return [
        Nvme(
            address=place.address,
            serial=_serial(seed, "NVME", index),
            model=kind.model,
            size_bytes=kind.size_bytes,
            numa=place.numa,
        )
        for index, place in enumerate(description.nvmes)
        if kind is not None
    ]


def _fabrics(description: Description, seed: str) -> list[Fabric]:
    kind = description.fabric
    return [
        Fabric(
            address=place.address,
            kind=kind.kind,
            virtual=kind.virtual,
            numa=place.numa,
            guid=_serial(seed, "0X", index).lower(),
        )
        for index, place in enumerate(description.fabrics)
        if kind is not None
    ]


def _serial(seed: str, prefix: str, index: int) -> str:
    """The same for the same host at every start, and of no other host."""
    return f"{prefix}-{hashlib.sha256(f'{seed}/{prefix}/{index}'.encode()).hexdigest()[:12].upper()}"
