"""Functions on the PCI bus, as sysfs shows them: what they are, where they sit, which driver has them."""

import re
import struct
from dataclasses import dataclass
from pathlib import Path

from gpuaas.infra.hosts.linux import readings

_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_DEVICE_SERIAL_CAPABILITY = 0x0003
_EXTENDED = 0x100


@dataclass(frozen=True)
class PciFunction:
    path: Path
    """Its directory."""
    address: str
    bridges: tuple[str, ...]
    """The ports above it, from the root down."""
    class_code: int
    """Class and subclass: 0x0302."""
    vendor: int
    device: int
    numa: int
    iommu_group: int
    driver: str
    virtual: bool
    parent: str
    """Of a virtual function, the physical one."""
    virtual_count: int


def pci_functions(sys: Path) -> list[PciFunction]:
    return [_function(entry) for entry in readings.children(sys / "bus/pci/devices") if _ADDRESS.fullmatch(entry.name)]


def _function(entry: Path) -> PciFunction:
    path = entry.resolve()
    above = tuple(part for part in path.parts[:-1] if _ADDRESS.fullmatch(part))
    group = readings.link_name(path / "iommu_group")
    return PciFunction(
        path=path,
        address=entry.name,
        bridges=above,
        class_code=readings.number(path / "class", base=16) >> 8,
        vendor=readings.number(path / "vendor", base=16),
        device=readings.number(path / "device", base=16),
        numa=max(readings.number(path / "numa_node", -1), -1),
        iommu_group=int(group) if group.isdigit() else -1,
        driver=readings.link_name(path / "driver"),
        virtual=(path / "physfn").is_symlink(),
        parent=readings.link_name(path / "physfn"),
        virtual_count=readings.number(path / "sriov_numvfs"),
    )


def pci_serial(function: PciFunction) -> str:
    """The serial number the device itself tells: in its vital product data, or as a capability; else empty."""
    return vpd_serial(readings.content(function.path / "vpd", 32_768)) or config_serial(
        readings.content(function.path / "config", 4096)
    )


def vpd_serial(data: bytes) -> str:
    """The SN keyword of the read-only part (PCI local bus specification, appendix I)."""
    at = 0
    while at + 3 <= len(data):
        tag = data[at]
        if not tag & 0x80:
            if tag >> 3 == 0x0F:  # the end
                return ""
            at += 1 + (tag & 0x07)
            continue
        length = int.from_bytes(data[at + 1 : at + 3], "little")
        if tag == 0x90:
            return _keyword(data[at + 3 : at + 3 + length], b"SN")
        at += 3 + length
    return ""


def _keyword(fields: bytes, wanted: bytes) -> str:
    at = 0
    while at + 3 <= len(fields):
        length = fields[at + 2]
        if fields[at : at + 2] == wanted:
            value = fields[at + 3 : at + 3 + length].decode("ascii", "replace").strip("\0 ")
            return value if value.isprintable() and value.isascii() else ""
        at += 3 + length
    return ""


def config_serial(config: bytes) -> str:
    """The device serial number capability of PCI Express, as lspci prints it."""
    at, steps = _EXTENDED, 0
    while _EXTENDED <= at <= len(config) - 12 and steps < 100:
        (header,) = struct.unpack_from("<I", config, at)
        if header & 0xFFFF == _DEVICE_SERIAL_CAPABILITY:
            low, high = struct.unpack_from("<II", config, at + 4)
            value = f"{high:08x}{low:08x}"
            return "" if set(value) <= {"0"} or set(value) <= {"f"} else value
        at, steps = header >> 20, steps + 1
    return ""
