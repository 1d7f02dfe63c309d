"""Whether this host and each of its GPUs can be used, check by check. What cannot be shown to work has not passed."""

import os
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path

from gpuaas.contracts.tasks.topology import Check, FaultKind, Gpu, GpuFault, GpuHealth
from gpuaas.infra.hosts.linux import readings
from gpuaas.infra.hosts.linux.inspection import memory_facts
from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.infra.hosts.linux.nvml import Card
from gpuaas.kit import clock

LEAST_DISK_BYTES = 2 << 30
LEAST_DISK_SHARE = 0.02
LEAST_MEMORY_SHARE = 0.02
MOST_BACKWARDS = timedelta(minutes=5)
HOTTEST_C = 95.0
DRIVERS = {"nvidia": ("nvidia", "vfio-pci"), "amd": ("amdgpu", "vfio-pci")}


def host_checks(layout: Layout, state: Path, gpus: list[Gpu]) -> list[Check]:
    return [
        _disk(layout),
        _memory(layout),
        _clock(layout, state),
        _memory_errors(layout),
        Check(name="gpus", passed=True, detail=f"{len(gpus)} GPUs" if gpus else "no GPU on this host"),
    ]


def _disk(layout: Layout) -> Check:
    disk = os.statvfs(layout.root)
    free, total = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    enough = free >= min(LEAST_DISK_BYTES, total // 4) and free >= total * LEAST_DISK_SHARE
    return Check(name="disk", passed=enough, detail=f"{free >> 20} of {total >> 20} MiB free")


def _memory(layout: Layout) -> Check:
    facts = memory_facts(layout)
    available, total = facts.get("MemAvailable", 0), facts.get("MemTotal", 0)
    passed = total > 0 and available >= total * LEAST_MEMORY_SHARE
    return Check(name="memory", passed=passed, detail=f"{available >> 20} of {total >> 20} MiB available")


def _clock(layout: Layout, state: Path) -> Check:
    """A clock never goes far behind what it showed before; the last time it was looked at is a file's own time."""
    seen, now = state / "clock", clock.now().timestamp()
    last = seen.stat().st_mtime if seen.exists() else 0.0
    behind = last - now
    if behind > MOST_BACKWARDS.total_seconds():
        return Check(name="clock", passed=False, detail=f"{behind:.0f} s behind what it showed before")
    seen.touch(mode=0o600)
    os.utime(seen, (now, max(now, last)))
    return Check(name="clock", passed=True, detail=clock.now().isoformat(timespec="seconds"))


def _memory_errors(layout: Layout) -> Check:
    controllers = readings.children(layout.sys / "devices/system/edac/mc")
    counts = [readings.number(controller / "ue_count") for controller in controllers]
    corrected = sum(readings.number(controller / "ce_count") for controller in controllers)
    detail = f"{sum(counts)} uncorrected, {corrected} corrected" if counts else "not counted by this host"
    return Check(name="memory_errors", passed=sum(counts) == 0, detail=detail)


def gpu_health(
    gpu: Gpu, card: Card | None, faults: Collection[GpuFault], *, has_nvml: bool, loaded: Check | None
) -> GpuHealth:
    checks = [Check(name="visible", passed=True, detail=gpu.address), _driver(gpu)]
    if gpu.driver == "nvidia":
        told = "the driver answers for it" if card else ("no answer" if has_nvml else "NVML is not installed")
        checks.append(Check(name="nvml", passed=card is not None, detail=told))
    if card is not None and card.temperature_c is not None:
        cool = card.temperature_c < HOTTEST_C
        checks.append(Check(name="temperature", passed=cool, detail=f"{card.temperature_c:.0f} °C"))
    errors = (card.ecc_uncorrected if card else None) or 0
    if card is not None and card.ecc_uncorrected is not None:
        checks.append(Check(name="ecc", passed=errors == 0, detail=f"{errors} uncorrected"))
    if card is not None:
        checks += _card_checks(card)
    serious = [fault for fault in faults if fault.serial == gpu.serial and fault.kind is not FaultKind.APPLICATION]
    said = ", ".join(sorted({fault.code for fault in serious}))
    checks.append(Check(name="faults", passed=not serious, detail=(said or "none told by the driver")[:500]))
    if loaded is not None:
        checks.append(loaded)
    return GpuHealth(
        serial=gpu.serial,
        healthy=all(check.passed for check in checks),
        checks=checks,
        temperature_c=card.temperature_c if card else None,
        power_w=card.power_w if card else None,
        ecc_uncorrected=min(errors, 1 << 20),
    )


def _card_checks(card: Card) -> list[Check]:
    """What only some cards tell of."""
    checks = []
    if card.remap_pending is not None:
        sound = not card.remap_pending and not card.remap_failed
        word = (
            "failed: to be replaced" if card.remap_failed else "waits for a reset" if card.remap_pending else "none due"
        )
        checks.append(Check(name="remapping", passed=sound, detail=word))
    if card.pcie_width is not None and card.pcie_width_most is not None:
        width = f"{card.pcie_width} of {card.pcie_width_most} lanes"
        checks.append(Check(name="pcie", passed=card.pcie_width >= card.pcie_width_most, detail=width))
    if any(card.nvlinks):
        down = [str(number) for number, up in enumerate(card.nvlinks) if not up]
        told = f"down: {', '.join(down)}" if down else f"{len(card.nvlinks)} up"
        checks.append(Check(name="nvlink", passed=not down, detail=told))
    return checks


def missing_health(serial: str) -> GpuHealth:
    return GpuHealth(
        serial=serial, healthy=False, checks=[Check(name="visible", passed=False, detail="not on this host")]
    )


def _driver(gpu: Gpu) -> Check:
    right = gpu.driver in DRIVERS.get(gpu.vendor, ())
    return Check(name="driver", passed=right, detail=gpu.driver or "no driver has it")
