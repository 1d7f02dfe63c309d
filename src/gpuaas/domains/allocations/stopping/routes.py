"""Operations on allocations that are stopped and started by their people."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.allocations import AllocationStop, AllocationView, StopReason
from gpuaas.contracts.permissions import P
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.requests.service import allocation_view
from gpuaas.domains.allocations.stopping import service
from gpuaas.infra.http.context import ProjectContext
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit.ids import AllocationId

_ONE = "/projects/{project_id}/allocations/{allocation_id}"

MONEY = (Code.BALANCE_EMPTY, Code.BUDGET_SPENT)


@operation(
    "POST",
    _ONE + "/stop",
    permission=P.ALLOCATIONS_MANAGE,
    lane=Lane.DEFAULT,
    audit="allocation.stop",
    tag="allocations",
    status=202,
    errors=(Code.ALLOCATION_MISSING, Code.ALLOCATION_NOT_ACTIVE, Code.STATE_MOVE_REFUSED),
)
async def allocation_stop(cx: ProjectContext, allocation_id: AllocationId, wanted: AllocationStop) -> AllocationView:
    """Stop an allocation: nobody can log in and nothing runs, and its home stays as it is.

    Its GPUs are kept for you, so it is charged as before; release it to pay no more."""
    await allocations.require_in(cx.tx, cx.project_id, allocation_id)
    by = cx.actor.email or cx.actor.name
    await service.allocation_stop(cx.tx, allocation_id, reason=StopReason.USER, by=by, note=wanted.reason or "")
    return await allocation_view(cx.tx, allocation_id)


@operation(
    "POST",
    _ONE + "/start",
    permission=P.ALLOCATIONS_MANAGE,
    lane=Lane.DEFAULT,
    audit="allocation.start",
    tag="allocations",
    status=202,
    errors=(Code.ALLOCATION_MISSING, Code.ALLOCATION_NOT_STOPPED, Code.STATE_MOVE_REFUSED, *MONEY),
)
async def allocation_start(cx: ProjectContext, allocation_id: AllocationId) -> AllocationView:
    """Start a stopped allocation again: active once its GPUs are proven usable, with its home as it was."""
    await service.may_start(cx.tx, await allocations.require_in(cx.tx, cx.project_id, allocation_id))
    await service.allocation_start(cx.tx, allocation_id, by=cx.actor.email or cx.actor.name)
    return await allocation_view(cx.tx, allocation_id)
