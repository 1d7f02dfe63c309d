"""What the numbers of NVIDIA's driver mean for a GPU that is let to strangers. Pure.

Line by line after the table "Xids" of NVIDIA's Xid Catalog (https://docs.nvidia.com/deploy/xid-errors/,
"Analyzing Xid Errors with the Xid Catalog"), by its column "Resolution Bucket (Immediate Action)": RESTART_APP and
IGNORE ask nothing of the GPU and are the application's; RESET_GPU is resettable; RESTART_BM, CHECK_MECHANICALS,
CONTACT_SUPPORT and what has no bucket are the hardware's. Where we are stricter than the catalogue, the line says why.
A number it does not know, or calls unused, is taken for the hardware: a slot too many is checked, none too few."""

from gpuaas.contracts.tasks.topology import FaultKind

APPLICATION, RESETTABLE, HARDWARE = FaultKind.APPLICATION, FaultKind.RESETTABLE, FaultKind.HARDWARE

RESTART_APP = frozenset({
    8,  # GPU stopped processing: a channel's idle timeout
    11, 25, 32,  # invalid or corrupted push buffer stream
    13,  # graphics engine exception: an illegal instruction or address of a kernel
    31,  # GPU memory page fault: an illegal address
    39, 40, 41,  # copy engine exception
    60,  # SEC2, a video processor's exception
    68, 83, 84, 88, 89, 96, 97, 98,  # NVDEC 0 to 7
    69,  # graphics engine class error
    70, 71, 72, 75, 76, 77, 85, *range(126, 136),  # copy engines 3 to 19
    80,  # corrupted data sent to the GPU: the push buffer's checksum
    82, *range(99, 106),  # NVJPG 0 to 7
    86, 139,  # optical flow
    151,  # key rotation: RESTART_VM, the tenant's own
})  # fmt: skip
IGNORED = frozenset({
    14,  # injected from user space
    37, 38,  # driver firmware error of a channel
    43,  # a user application hit a fault of its own and was ended; the GPU stays healthy
    44,  # fault during a context switch
    45,  # WORKFLOW_XID_45: cleaning up after an application that was stopped, or beside another Xid
    66, 67,  # illegal access by the driver
    93,  # the InfoROM's provisioned wear limit: not fatal
    108,  # NVLink remote translation
    137,  # NVLink privilege error: an application's illegal access to a peer
    141,  # CUDA fast path
    152, 153,  # DLA
    160, 161,  # channel retirement
    162, 163, 164, 165,  # power smoothing circuitry: no reset required
})  # fmt: skip
RESET_GPU = frozenset({
    46,  # GPU stopped processing
    48,  # WORKFLOW_XID_48, double-bit ECC error: a reset or a reboot is needed to clear it
    171, 172,  # beside 48: whether it was DRAM or SRAM
    62,  # internal micro-controller halt
    74,  # WORKFLOW_NVLINK_ERR: a reset or a reboot is needed; the other end may be the cause; strikes show a bad link
    95,  # uncontained memory error: nothing may run before the reset
    109,  # context switch timeout
    119, 120,  # GSP: no answer, or an error in it
    136,  # link training failed
    140,  # unrecovered ECC error
    143,  # GPU initialisation
    155,  # NVLink, defined by software: a link that was taken down
    156,  # resource retirement
    158,  # fatal timeout
    159,  # CHECK_UVM, beside another Xid on a C2C link
    63,  # IGNORE in the catalogue; but the row is remapped only by a reset, which is due before the next tenant
    94,  # RESTART_APP in the catalogue, "reset the GPU when convenient": between two tenants is when it is
})  # fmt: skip
REPAIR = frozenset({
    54,  # CHECK_MECHANICALS: auxiliary power is not connected
    78,  # UPDATE_SWFW: the host's driver does not fit
    79,  # RESTART_BM: fallen off the bus
    142,  # CONTACT_SUPPORT
    167,  # PCIe fatal timeout
    168,  # less memory than it should have
    169,  # SEC2 halt
    64,  # RESET_GPU in the catalogue; but a row that could not be remapped is what an RMA is for
    92,  # IGNORE in the catalogue, then CONTACT_SUPPORT: works on, and is not sold anew before somebody looked
    110,  # RESET_GPU in the catalogue, "revert hardware modifications and cold reset": a security fault
    157,  # IGNORE in the catalogue: "no possible repairs", the same again at any time
})  # fmt: skip
NVLINK5 = frozenset(range(144, 151))
"""WORKFLOW_NVLINK5_ERR: the line says whether it is fatal; a fatal one needs a reset."""
QUIET = frozenset({
    106, 107,  # a test message of the management bus
    121,  # corrected errors of the C2C link: no operational impact
})  # fmt: skip
RECOVERY_CHANGED = 154
"""Beside other Xids: sums up what they ask for."""

XID_KINDS: dict[int, FaultKind] = {
    **dict.fromkeys(RESTART_APP | IGNORED, APPLICATION),
    **dict.fromkeys(RESET_GPU | NVLINK5 | {RECOVERY_CHANGED}, RESETTABLE),
    **dict.fromkeys(REPAIR, HARDWARE),
}


def xid_kind(code: int, detail: str = "") -> FaultKind | None:
    """None: not worth telling."""
    if code in QUIET:
        return None
    if code in NVLINK5 and "nonfatal" in detail.lower().replace("-", ""):
        return APPLICATION
    if code == RECOVERY_CHANGED:
        return _recovery(detail.lower())
    return XID_KINDS.get(code, HARDWARE)


def _recovery(detail: str) -> FaultKind | None:
    wanted = detail.rpartition(" to ")[2]
    if "reboot" in wanted:
        return HARDWARE
    if "none" in wanted:
        return None
    return RESETTABLE
