"""SKUs in the small world. Written by SQL, past the product."""

from typing import Any
from uuid import UUID

from gpuaas.kit.ids import new_id
from tests.every.world import Setting

GIB = 1 << 30


def sku_body(**changes: Any) -> dict[str, Any]:
    return {
        "name": f"sku-{new_id().hex}",
        "title": "An H200",
        "shape": "baremetal",
        "gpu_vendor": "NVIDIA",
        "gpu_model": "H200",
        "gpu_memory_bytes": 141 * GIB,
        "gpus_per_node": 8,
        "allowed_gpu_counts": [1, 2, 4, 8],
        "whole_node_only": False,
        "needs_nvme": True,
        "needs_fabric": True,
        "region": "eu-1",
    } | changes


async def put_sku(s: Setting) -> UUID:
    sku_id = new_id()
    await s.put("skus", id=sku_id, **sku_body())
    await s.put(
        "sku_prices",
        id=new_id(),
        sku_id=sku_id,
        currency="USD",
        micros_per_gpu_hour=3_500_000,
        valid_from="2026-01-01T00:00:00Z",
        set_by="example",
    )
    return sku_id
