"""Operations of asking for GPUs."""

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.allocations import (
    AllocationAsk,
    AllocationCreate,
    AllocationView,
    EstimateQuery,
    EstimateView,
)
from gpuaas.contracts.permissions import P
from gpuaas.domains.allocations.requests import service
from gpuaas.infra.http.context import ProjectContext
from gpuaas.infra.http.operation import Lane, operation

KEYS_BYTES = 512 * 1024
"""Room for fifty of the longest SSH keys."""
_ALL = "/projects/{project_id}/allocations"
MAX_BODY = 512 * 1024
"""As many SSH keys as may be sent, each as long as may be."""
_ASKING = (Code.SKU_MISSING, Code.ALLOCATION_REFUSED, Code.ALLOCATION_LIFETIME)


@operation(
    "POST",
    _ALL,
    permission=P.ALLOCATIONS_CREATE,
    lane=Lane.DEFAULT,
    audit="allocation.request",
    tag="allocations",
    status=202,
    body_limit=KEYS_BYTES,
    errors=(
        *_ASKING,
        Code.ALLOCATION_NAME_TAKEN,
        Code.BALANCE_EMPTY,
        Code.BUDGET_SPENT,
        Code.CAPACITY_MISSING,
        Code.QUOTA_EXCEEDED,
        Code.BALANCE_TOO_LOW,
        Code.SSH_KEY_REQUIRED,
        Code.SSH_KEY_MISSING,
        Code.SSH_KEY_INVALID,
        Code.SSH_KEY_LIMIT,
    ),
)
async def allocation_create(cx: ProjectContext, wanted: AllocationCreate) -> AllocationView:
    """Ask for GPUs. They are reserved at once, or the request is queued or refused; active once proven usable."""
    return await service.allocation_request(cx, wanted)


@operation(
    "GET",
    "/projects/{project_id}/allocation-estimate",
    permission=P.ALLOCATIONS_READ,
    lane=Lane.DEFAULT,
    tag="allocations",
    errors=_ASKING,
)
async def allocation_estimate(cx: ProjectContext, query: EstimateQuery) -> EstimateView:
    """Say what an allocation would cost, what would be reserved, and whether it fits now. Nothing is reserved."""
    return await service.allocation_estimate(cx, AllocationAsk(**msgspec.structs.asdict(query)))
