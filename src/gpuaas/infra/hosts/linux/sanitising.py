"""Cleaning a GPU for its next tenant, saying only what was really done.

A reset is not an erase: data has been seen to survive one. So a GPU whose memory nobody cleared is told as not clean,
whatever else was done to it."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from gpuaas.contracts.tasks.catalogue import Cleaning, CleaningMethod
from gpuaas.contracts.tasks.topology import Gpu
from gpuaas.infra.hosts.linux import readings
from gpuaas.infra.hosts.linux.command import PATH, run
from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.kit import clock
from gpuaas.ports.host import HostFailed

MemoryClear = Callable[[Gpu], Awaitable[str]]
"""Overwrite all memory of the GPU and answer with the evidence; HostFailed when it cannot."""
RESET_SECONDS = 60
_FREE_DRIVERS = ("", "vfio-pci")
"""Under these nobody is using the device through the host's kernel."""


async def memory_cleaning(gpu: Gpu, clear: MemoryClear) -> Cleaning:
    try:
        return _cleaning(gpu, CleaningMethod.MEMORY_CLEARED, clean=True, evidence=await clear(gpu))
    except HostFailed as failure:
        return _cleaning(gpu, CleaningMethod.MEMORY_CLEARED, clean=False, evidence=str(failure))


def missing_cleaning(serial: str) -> Cleaning:
    """Of a GPU that is not there nothing can be shown."""
    return Cleaning(
        target=serial,
        method=CleaningMethod.MEMORY_CLEARED,
        clean=False,
        evidence="there is no such GPU on this host",
        at=clock.now(),
    )


def reset_cleaning(layout: Layout, gpu: Gpu, path: str = PATH) -> Cleaning:
    """Function-level reset: by the kernel where the device is free, by the vendor's tool where its driver has it."""
    device = layout.sys / "bus/pci/devices" / gpu.address
    try:
        evidence = _reset(device, gpu, path)
    except HostFailed as failure:
        return _cleaning(gpu, CleaningMethod.RESET, clean=False, evidence=str(failure))
    except OSError as error:
        return _cleaning(gpu, CleaningMethod.RESET, clean=False, evidence=f"the kernel refused: {error.strerror}")
    answers = readings.content(device / "config", 2)
    if answers in (b"", b"\xff\xff"):
        return _cleaning(gpu, CleaningMethod.RESET, clean=False, evidence=f"{evidence}; it answers no more")
    return _cleaning(gpu, CleaningMethod.RESET, clean=True, evidence=f"{evidence}; it answers as {answers[::-1].hex()}")


def _reset(device: Path, gpu: Gpu, path: str) -> str:
    driver = readings.link_name(device / "driver")
    if driver == "nvidia":
        ended = run(["nvidia-smi", "--gpu-reset", "-i", gpu.address], timeout_seconds=RESET_SECONDS, path=path)
        return f"reset by nvidia-smi: {ended.output[:200]}"
    if driver not in _FREE_DRIVERS:
        raise HostFailed("reset_refused", f"the driver {driver} has it; not reset under its hands")
    if not (device / "reset").exists():
        raise HostFailed("reset_unsupported", "the kernel knows no way to reset it")
    methods = readings.text(device / "reset_method", "the kernel's own choice")
    (device / "reset").write_text("1")
    return f"reset by {methods}"


def _cleaning(gpu: Gpu, method: CleaningMethod, *, clean: bool, evidence: str) -> Cleaning:
    return Cleaning(target=gpu.serial, method=method, clean=clean, evidence=evidence[:500], at=clock.now())
