"""What may be asked for: pure rules over a SKU and the policy."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.allocations import Isolation
from gpuaas.contracts.http.inventory import Shape, SkuState
from gpuaas.domains.inventory.models import Sku
from gpuaas.kit.errors import Conflict, Detail, Refused


def check_ask(sku: Sku, *, gpu_count: int, whole_node_only: bool, isolation: Isolation) -> None:
    """Refuse what this SKU is not sold as, saying how it is."""
    if sku.state is not SkuState.ACTIVE:
        raise _refused("sku_id", f"{sku.name} is not sold any more")
    if sku.shape is not Shape.BAREMETAL:
        raise _refused("sku_id", f"{sku.name} is sold as slices of a virtual machine, which are not offered yet")
    if gpu_count not in sku.allowed_gpu_counts:
        counts = ", ".join(map(str, sku.allowed_gpu_counts))
        raise _refused("gpu_count", f"{sku.name} is sold with {counts} GPUs of a node")
    whole = gpu_count == sku.gpus_per_node
    for holds, why in (
        (sku.whole_node_only, f"{sku.name} is sold as whole nodes only"),
        (whole_node_only, "the policy allocations.whole_node_only holds here"),
        (isolation is Isolation.FULL_REIMAGE, "the policy allocations.isolation is full-reimage here"),
    ):
        if holds and not whole:
            raise _refused("gpu_count", f"{why}: ask for all {sku.gpus_per_node} GPUs of a node")


def lease_seconds(*, asked_hours: int | None, lease_hours: int, lifetime_hours: int) -> int:
    """How long it lasts at first."""
    if asked_hours is not None and asked_hours > lifetime_hours:
        raise Conflict(
            Code.ALLOCATION_LIFETIME,
            f"{asked_hours} hours are more than an allocation may last here: {lifetime_hours} hours "
            "(policy allocations.lifetime_hours_max).",
        )
    return min(asked_hours or lease_hours, lifetime_hours) * 3600


def _refused(field: str, reason: str) -> Refused:
    return Refused(Code.ALLOCATION_REFUSED, f"This cannot be allocated: {reason}.", details=[Detail(field, reason)])
