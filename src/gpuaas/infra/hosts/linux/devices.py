"""GPUs, NVMe and InfiniBand devices among the PCI functions, each with its own facts."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from gpuaas.contracts.tasks.topology import Fabric, Nvme
from gpuaas.infra.hosts.linux import readings
from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.infra.hosts.linux.mounts import read_mounts
from gpuaas.infra.hosts.linux.pci import PciFunction, pci_serial

NVIDIA, AMD = 0x10DE, 0x1002
_GPU_CLASSES = {NVIDIA: (0x0300, 0x0302), AMD: (0x0300, 0x0302, 0x0380, 0x1200)}
"""VGA and 3D controllers; AMD's Instinct cards are display controllers or processing accelerators."""
_NVME_CLASS = 0x0108
_SYSTEM_POINTS = ("/", "/boot", "/boot/efi", "/usr", "/var")
_SECTOR = 512


@dataclass(frozen=True)
class FabricFunction:
    function: PciFunction
    fabric: Fabric


def gpu_functions(functions: list[PciFunction]) -> list[PciFunction]:
    """Whole GPUs; a virtual function of one is no GPU of its own."""
    return [one for one in functions if one.class_code in _GPU_CLASSES.get(one.vendor, ()) and not one.virtual]


def gpu_serial(layout: Layout, function: PciFunction) -> str:
    """Without NVML: what the driver or the device says, else a name that stays while the card stays in its slot."""
    told = readings.text(function.path / "serial_number") or readings.text(function.path / "unique_id")
    if told.strip("0"):
        return told[:100]
    if found := pci_serial(function):
        return found[:100]
    machine = readings.text(layout.etc / "machine-id") or readings.text(layout.sys / "class/dmi/id/product_uuid")
    facts = f"{machine}/{function.address}/{function.vendor:04x}:{function.device:04x}"
    return f"pci-{hashlib.sha256(facts.encode()).hexdigest()[:20]}"


def nvmes(functions: list[PciFunction]) -> list[tuple[PciFunction, Nvme]]:
    found = []
    for function in functions:
        if function.class_code == _NVME_CLASS:
            controller = next(iter(readings.children(function.path / "nvme")), function.path)
            found.append(
                (
                    function,
                    Nvme(
                        address=function.address,
                        serial=readings.text(controller / "serial")[:200],
                        model=readings.text(controller / "model")[:200],
                        size_bytes=_namespaces_size(controller),
                        numa=function.numa,
                    ),
                )
            )
    return found


def _namespaces_size(controller: Path) -> int:
    blocks = [
        entry for entry in readings.children(controller) if entry.name.startswith("nvme") and "n" in entry.name[4:]
    ]
    return sum(readings.number(entry / "size") * _SECTOR for entry in blocks)


def fabrics(functions: list[PciFunction]) -> list[FabricFunction]:
    """Devices that speak InfiniBand, by their link layer; an Ethernet card of the same maker is none."""
    found = []
    for function in functions:
        for device in readings.children(function.path / "infiniband"):
            layers = [readings.text(port / "link_layer") for port in readings.children(device / "ports")]
            if "InfiniBand" in layers:
                fabric = Fabric(
                    address=function.address,
                    kind="infiniband",
                    guid=readings.text(device / "node_guid")[:200],
                    numa=function.numa,
                    virtual=function.virtual,
                )
                found.append(FabricFunction(function, fabric))
                break
    return found


def spare_fabrics(found: list[FabricFunction]) -> list[PciFunction]:
    """What a tenant can be given: a card that was split into virtual functions stays with the host."""
    return [one.function for one in found if one.function.virtual or not one.function.virtual_count]


def system_disks(layout: Layout) -> set[str]:
    """PCI addresses under the disks the host itself runs from, through partitions, LVM and RAID."""
    used = {mount.device for mount in read_mounts(layout) if str(mount.point) in _SYSTEM_POINTS}
    addresses: set[str] = set()
    for device in used:
        _collect(layout.sys / "dev/block" / device, addresses, depth=8)
    return addresses


def _collect(block: Path, addresses: set[str], depth: int) -> None:
    if depth and block.exists():
        path = block.resolve()
        addresses.update(part for part in path.parts if part.count(":") == 2 and "." in part)
        for slave in readings.children(path / "slaves"):
            _collect(slave, addresses, depth - 1)
