"""Operations on the queue. Leaving it is releasing the allocation."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.allocations import PrioritySet, QueueEntry, QueueView
from gpuaas.contracts.permissions import P
from gpuaas.domains.allocations.queue import service
from gpuaas.infra.http.context import PlatformContext, ProjectContext
from gpuaas.infra.http.operation import Lane, operation


@operation("GET", "/projects/{project_id}/queue", permission=P.ALLOCATIONS_READ, lane=Lane.DEFAULT)
async def project_queue_list(cx: ProjectContext) -> QueueView:
    """List the project's requests that wait, each with its place in the queue and when it may start."""
    return QueueView(entries=await service.queue_list(cx.tx, cx.policy, project_id=cx.project_id))


@operation("GET", "/admin/queue", permission=P.PLATFORM_READ, lane=Lane.DEFAULT)
async def queue_list(cx: PlatformContext) -> QueueView:
    """List everybody who waits, by SKU and place."""
    return QueueView(entries=await service.queue_list(cx.tx, cx.policy))


@operation(
    "PATCH",
    "/admin/allocations/{allocation_id}/priority",
    permission=P.PLATFORM_MANAGE,
    lane=Lane.ADMIN,
    audit="allocation.priority",
    errors=(Code.ALLOCATION_MISSING, Code.ALLOCATION_NOT_WAITING),
)
async def allocation_priority_set(cx: PlatformContext, allocation_id: UUID, wanted: PrioritySet) -> QueueEntry:
    """Move a request that waits before or behind the others: more comes first, 0 is everybody's."""
    return await service.priority_set(cx.tx, cx.policy, allocation_id, wanted)
