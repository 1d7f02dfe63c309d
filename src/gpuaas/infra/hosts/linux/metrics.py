"""Numbers of now: of the host from /proc, of its GPUs from NVML. What cannot be read is not there."""

import os

from gpuaas.contracts.tasks.topology import Gpu
from gpuaas.infra.hosts.linux import readings
from gpuaas.infra.hosts.linux.inspection import memory_facts
from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.infra.hosts.linux.nvml import Card


def host_metrics(layout: Layout) -> dict[str, float]:
    numbers: dict[str, float] = {}
    loads = readings.text(layout.proc / "loadavg").split()[:3]
    numbers |= {f"host.load{minutes}": float(load) for minutes, load in zip((1, 5, 15), loads, strict=False)}
    memory = memory_facts(layout)
    for name, fact in (("total", "MemTotal"), ("available", "MemAvailable")):
        if fact in memory:
            numbers[f"host.memory_{name}_bytes"] = float(memory[fact])
    uptime = readings.text(layout.proc / "uptime").split()
    if uptime:
        numbers["host.uptime_seconds"] = float(uptime[0])
    disk = os.statvfs(layout.root)
    numbers["host.disk_total_bytes"] = float(disk.f_blocks * disk.f_frsize)
    numbers["host.disk_free_bytes"] = float(disk.f_bavail * disk.f_frsize)
    return numbers | _network(layout)


def _network(layout: Layout) -> dict[str, float]:
    """Of all interfaces but loopback, since the boot."""
    received = sent = 0
    for line in readings.text(layout.proc / "net/dev").splitlines()[2:]:
        name, _, counters = line.partition(":")
        fields = counters.split()
        if name.strip() != "lo" and len(fields) > 8:
            received += int(fields[0])
            sent += int(fields[8])
    return {"host.network_received_bytes": float(received), "host.network_sent_bytes": float(sent)}


def gpu_metrics(gpu: Gpu, card: Card | None) -> dict[str, float]:
    if card is None:
        return {}
    values = {
        "temperature_c": card.temperature_c,
        "power_w": card.power_w,
        "utilisation_percent": card.utilization_percent,
        "memory_used_bytes": card.memory_used_bytes,
        "ecc_uncorrected": card.ecc_uncorrected,
    }
    return {f"gpu.{gpu.serial}.{name}": float(value) for name, value in values.items() if value is not None}
