"""A node is offered only if it is what its SKU says."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from gpuaas.contracts.http.inventory import Shape, SkuState
from gpuaas.contracts.tasks.topology import Gpu, Topology
from gpuaas.domains.inventory.hardware import differences
from gpuaas.domains.inventory.models import Sku
from gpuaas.kit.ids import SkuId, new_id

GIB = 1 << 30
SKU = Sku(
    id=SkuId(new_id()),
    name="h200-8",
    title="8 × H200",
    shape=Shape.GPU_SLICE,
    gpu_vendor="NVIDIA",
    gpu_model="H200",
    gpu_memory_bytes=141 * GIB,
    gpus_per_node=2,
    allowed_gpu_counts=[1, 2],
    whole_node_only=False,
    needs_nvme=True,
    needs_fabric=True,
    region="eu-1",
    state=SkuState.ACTIVE,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)


def gpu(index: int, **changes: object) -> Gpu:
    made = Gpu(
        index=index,
        address=f"0000:0{index}:00.0",
        vendor="NVIDIA",
        model="NVIDIA H200 SXM5",
        serial=f"S{index}",
        memory_bytes=140 * GIB,
        numa=0,
        nvme="0000:81:00.0",
        fabric="0000:91:00.1",
    )
    return replace(made, **changes)


def topology(*gpus: Gpu, iommu: bool = True) -> Topology:
    return Topology(
        hostname="n",
        os="Debian 12",
        kernel="6.1",
        boot_id="b",
        cpu_model="c",
        cpu_count=64,
        memory_bytes=512 * GIB,
        numa_nodes=2,
        iommu=iommu,
        gpus=list(gpus),
        nvmes=[],
        fabrics=[],
    )


def test_hardware_that_is_what_the_sku_says_has_no_difference():
    assert differences(SKU, topology(gpu(0), gpu(1))) == []


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (topology(gpu(0)), "GPUs: expected 2, found 1"),
        (topology(gpu(0), gpu(1, model="NVIDIA H20")), "model: expected H200, found NVIDIA H20"),
        (topology(gpu(0), gpu(1, vendor="AMD")), "vendor: expected NVIDIA, found AMD"),
        (topology(gpu(0), gpu(1, memory_bytes=80 * GIB)), "memory: expected 141 GiB, found 80 GiB"),
        (topology(gpu(0), gpu(1, nvme=None)), "NVMe beside it: expected one, found none"),
        (topology(gpu(0), gpu(1, fabric=None)), "fabric beside it: expected one, found none"),
        (topology(gpu(0), gpu(1, serial="S0")), "serial numbers: expected each once, found S0 more than once"),
        (topology(gpu(0), gpu(1), iommu=False), "IOMMU: expected on, for slices, found off"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_difference_is_named(found: Topology, word: str):
    said = [str(one) for one in differences(SKU, found)]
    assert len(said) == 1
    assert said[0].endswith(word)
