"""The operation of explaining."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.allocations import AllocationExplained
from gpuaas.contracts.permissions import P
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.explaining import service
from gpuaas.infra.http.context import ProjectContext
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit.ids import AllocationId


@operation(
    "GET",
    "/projects/{project_id}/allocations/{allocation_id}/explain",
    permission=P.ALLOCATIONS_READ,
    lane=Lane.DEFAULT,
    tag="allocations",
    errors=(Code.ALLOCATION_MISSING,),
)
async def allocation_explain(cx: ProjectContext, allocation_id: AllocationId) -> AllocationExplained:
    """Explain an allocation: why it is as it is, what happens next and when at the latest, what it costs."""
    allocation = await allocations.require_in(cx.tx, cx.project_id, allocation_id)
    return await service.allocation_explain(cx.tx, cx.policy, allocation)
