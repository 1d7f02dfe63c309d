"""Whether a node is what its SKU says. Pure: a node that differs is not offered, and the difference is shown."""

from collections.abc import Iterable

import msgspec

from gpuaas.contracts.http.inventory import Shape
from gpuaas.contracts.tasks.topology import Gpu, Topology
from gpuaas.domains.inventory.models import Sku

MEMORY_SLACK = 0.05
"""Vendors count memory in their own way: what a driver reports may be this much less than the data sheet."""


class Difference(msgspec.Struct, frozen=True):
    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.what}: expected {self.expected}, found {self.found}"


def differences(sku: Sku, topology: Topology) -> list[Difference]:
    found: list[Difference] = []
    gpus = topology.gpus
    if len(gpus) != sku.gpus_per_node:
        found.append(Difference("GPUs", str(sku.gpus_per_node), str(len(gpus))))
    twice = _twice(gpu.serial for gpu in gpus)
    if twice:
        found.append(Difference("serial numbers", "each once", f"{', '.join(twice)} more than once"))
    shared = _twice(gpu.address for gpu in gpus)
    if shared:
        found.append(Difference("addresses", "each once", f"{', '.join(shared)} more than once"))
    if sku.shape is Shape.GPU_SLICE and not topology.iommu:
        found.append(Difference("IOMMU", "on, for slices", "off"))
    for gpu in gpus:
        found += _of_gpu(sku, gpu)
    return found


def _of_gpu(sku: Sku, gpu: Gpu) -> list[Difference]:
    name = f"GPU {gpu.index} ({gpu.serial})"
    checks = [
        (gpu.vendor.lower() == sku.gpu_vendor.lower(), "vendor", sku.gpu_vendor, gpu.vendor),
        (_same_model(sku.gpu_model, gpu.model), "model", sku.gpu_model, gpu.model),
        (
            gpu.memory_bytes >= sku.gpu_memory_bytes * (1 - MEMORY_SLACK),
            "memory",
            _gib(sku.gpu_memory_bytes),
            _gib(gpu.memory_bytes),
        ),
        (gpu.nvme is not None or not sku.needs_nvme, "NVMe beside it", "one", "none"),
        (gpu.fabric is not None or not sku.needs_fabric, "fabric beside it", "one", "none"),
    ]
    return [Difference(f"{name}, {what}", expected, found) for holds, what, expected, found in checks if not holds]


def _same_model(wanted: str, found: str) -> bool:
    """A driver may say more than the catalogue: 'H200' is 'NVIDIA H200 SXM5 141GB', but not 'H20'."""
    words = found.lower().replace("-", " ").split()
    return all(word in words for word in wanted.lower().replace("-", " ").split())


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.0f} GiB"


def _twice(names: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    return sorted({name for name in names if name in seen or seen.add(name)})  # type: ignore[func-returns-value] # add says None
