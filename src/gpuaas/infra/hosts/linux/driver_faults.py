"""What the drivers' lines in the kernel's log mean. Pure: a line in, an address and a meaning out."""

import re
from dataclasses import dataclass

from gpuaas.contracts.tasks.topology import FaultKind
from gpuaas.infra.hosts.linux.xid_catalogue import xid_kind

_APPLICATION, _RESETTABLE, _HARDWARE = FaultKind.APPLICATION, FaultKind.RESETTABLE, FaultKind.HARDWARE

_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?\): "
    r"(?P<code>\d{1,4})\b,?(?P<detail>.*)"
)
_AMD = re.compile(r"amdgpu (?P<address>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): (?:amdgpu: )?(?P<detail>.*)")
_AMD_MEANINGS: list[tuple[re.Pattern[str], str, FaultKind]] = [
    # Kernel sources, drivers/gpu/drm/amd/amdgpu: amdgpu_ras.c, amdgpu_device.c, amdgpu_job.c, gmc_v9_0.c.
    (re.compile(r"\b[1-9]\d* (?:new )?uncorrectable hardware errors"), "RAS uncorrectable", _HARDWARE),
    (re.compile(r"GPU reset\(\d+\) failed|GPU reset end with ret = -|GPU Recovery Failed"), "reset failed", _HARDWARE),
    (re.compile(r"device lost from bus|GPU has fallen off the bus|ASIC is not responding"), "lost", _HARDWARE),
    (re.compile(r"RAS.*(?:poison|fatal error)", re.IGNORECASE), "RAS poison", _RESETTABLE),
    (re.compile(r"GPU reset begin"), "reset", _RESETTABLE),
    (re.compile(r"ring \S+ timeout"), "ring timeout", _APPLICATION),
    (re.compile(r"page fault \(src_id"), "page fault", _APPLICATION),
]


@dataclass(frozen=True)
class DriverFault:
    address: str
    """Of the GPU's first function: 0000:3b:00.0."""
    code: str
    kind: FaultKind
    detail: str


def read_line(message: str) -> DriverFault | None:
    """The fault a line of the kernel's log speaks of; None when it speaks of none. Only at its beginning: further on,
    other lines have names that users chose."""
    if match := _XID.match(message):
        code = int(match["code"])
        kind = xid_kind(code, match["detail"])
        if kind is None:
            return None
        return DriverFault(_address(match["address"]), f"XID {code}", kind, _plain(match["detail"]))
    if match := _AMD.match(message):
        for pattern, name, kind in _AMD_MEANINGS:
            if pattern.search(match["detail"]):
                return DriverFault(match["address"], f"amdgpu {name}", kind, _plain(match["detail"]))
    return None


def _address(told: str) -> str:
    domain, bus, device = told.lower().split(":")
    return f"{int(domain, 16):04x}:{bus}:{device}.0"


def _plain(detail: str) -> str:
    """What a user's program may have named itself is only ever text."""
    return "".join(letter if letter.isprintable() else "?" for letter in detail.strip(" ,"))[:500]
