"""Names of PCI devices from the host's pci.ids, where it has one."""

from pathlib import Path

_PLACES = ("usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids", "var/lib/pciutils/pci.ids")
VENDORS = {0x10DE: "nvidia", 0x1002: "amd", 0x15B3: "mellanox", 0x8086: "intel"}


def vendor_name(vendor: int) -> str:
    return VENDORS.get(vendor, f"{vendor:04x}")


def read_pci_names(root: Path) -> dict[tuple[int, int], str]:
    """Of the vendors we know; empty when there is no list."""
    for place in _PLACES:
        try:
            return parse_pci_names((root / place).read_text(errors="replace"))
        except OSError:
            continue
    return {}


def parse_pci_names(text: str) -> dict[tuple[int, int], str]:
    names: dict[tuple[int, int], str] = {}
    vendor: int | None = None
    for line in text.splitlines():
        if not line or line.startswith(("#", "\t\t")):
            continue
        code, _, name = line.strip().partition("  ")
        if line.startswith("\t"):
            if vendor is not None:
                names[vendor, int(code, 16)] = name.strip()
        elif line.startswith("C "):
            break
        else:
            vendor = int(code, 16) if int(code, 16) in VENDORS else None
    return names
