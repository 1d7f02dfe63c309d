"""What the drivers' lines in the kernel's log mean. Pure: a line in, an address and a meaning out.

The kinds follow the immediate action in NVIDIA's Xid catalogue
(https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html): RESTART_APP is the application's own; RESET_GPU
and what a reset activates is resettable; what fails, or what only an RMA or a cold start brings back, is the hardware.
A code the catalogue does not explain is taken for the hardware: a slot too many is checked, none too few."""

import re
from dataclasses import dataclass

from gpuaas.contracts.tasks.topology import FaultKind

_APPLICATION, _RESETTABLE, _HARDWARE = FaultKind.APPLICATION, FaultKind.RESETTABLE, FaultKind.HARDWARE

XID_KINDS: dict[int, FaultKind] = {
    8: _APPLICATION,  # GPU stopped processing: idle timeout of a channel; RESTART_APP
    11: _APPLICATION,  # invalid or corrupted push buffer stream; RESTART_APP
    13: _APPLICATION,  # graphics engine exception: an illegal instruction or address of a kernel; RESTART_APP
    31: _APPLICATION,  # GPU memory page fault: an illegal address access; RESTART_APP
    32: _APPLICATION,  # invalid or corrupted push buffer stream; RESTART_APP
    37: _APPLICATION,  # driver firmware error of a channel; RESTART_APP
    43: _APPLICATION,  # reset channel verification error: a user application hit a fault and was ended
    45: _APPLICATION,  # pre-emptive removal: cleaning up after another error, or the application was stopped
    68: _APPLICATION,  # NVDEC exception; RESTART_APP
    69: _APPLICATION,  # graphics engine class error; RESTART_APP
    46: _RESETTABLE,  # GPU stopped processing; RESET_GPU
    48: _RESETTABLE,  # double-bit ECC error: the GPU must be reset; the row is remapped then (63, 64 tell)
    61: _RESETTABLE,  # internal microcontroller breakpoint or warning; RESET_GPU
    62: _RESETTABLE,  # internal microcontroller halt; RESET_GPU
    63: _RESETTABLE,  # row remapping or page retirement recorded: active after a reset
    94: _RESETTABLE,  # contained memory error: the application ends; a reset is due to remap the row
    95: _RESETTABLE,  # uncontained memory error: RESET_GPU before anything else runs
    109: _RESETTABLE,  # context switch timeout; RESET_GPU
    119: _RESETTABLE,  # GSP RPC timeout; RESET_GPU
    120: _RESETTABLE,  # GSP error; RESET_GPU
    136: _RESETTABLE,  # link training failed; RESET_GPU
    140: _RESETTABLE,  # unrecovered ECC error; RESET_GPU
    143: _RESETTABLE,  # GPU initialisation error; RESET_GPU
    154: _RESETTABLE,  # the recovery action has changed; the detail says to what
    54: _HARDWARE,  # auxiliary power is not connected
    64: _HARDWARE,  # row remapping or page retirement could not be recorded: spare rows are used up
    74: _HARDWARE,  # NVLink error: mechanical or electrical
    79: _HARDWARE,  # the GPU has fallen off the bus
    92: _HARDWARE,  # high rate of single-bit ECC errors
    110: _HARDWARE,  # security fault
    122: _HARDWARE,  # SPI PMU read failure
    123: _HARDWARE,  # SPI PMU write failure
    149: _HARDWARE,  # NVLink: fatal link error
}
_QUIET_XIDS = frozenset({
    121,  # a corrected C2C link error
})  # fmt: skip
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?\): "
    r"(?P<code>\d{1,4})\b,?(?P<detail>.*)"
)
_AMD = re.compile(r"\bamdgpu (?P<address>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): (?:amdgpu: )?(?P<detail>.*)")
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
    """The fault a line of the kernel's log speaks of; None when it speaks of none."""
    if match := _XID.search(message):
        code = int(match["code"])
        if code in _QUIET_XIDS:
            return None
        kind = XID_KINDS.get(code, _HARDWARE)
        return DriverFault(_address(match["address"]), f"XID {code}", kind, _plain(match["detail"]))
    if match := _AMD.search(message):
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
