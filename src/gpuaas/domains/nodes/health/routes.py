"""Operations on health: the agents' faults, and what operators see and do about slots."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.agent import TellFaults
from gpuaas.contracts.http.base import Done, Page
from gpuaas.contracts.http.nodes import (
    HealthEntry,
    HealthHistoryQuery,
    NodeReason,
    TaskView,
)
from gpuaas.contracts.permissions import P
from gpuaas.domains.nodes.health import service
from gpuaas.domains.nodes.health.models import HealthRow
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.domains.nodes.tasks.views import task_view
from gpuaas.infra.http.context import AgentContext, PlatformContext
from gpuaas.infra.http.listing import page
from gpuaas.infra.http.operation import Lane, Wire, operation
from gpuaas.kit.ids import NodeId, SlotId
from gpuaas.kit.paging import CursorRefused

_LAST = UUID(int=(1 << 128) - 1)
_ASKS = (Code.STATE_MOVE_REFUSED, Code.TASK_QUEUE_FULL)


@operation("POST", "/faults", lane=Lane.DEFAULT, wire=Wire.AGENT, tag="agent")
async def agent_faults(cx: AgentContext, told: TellFaults) -> Done:
    """Tell of faults of GPUs. When this is answered, a GPU that must not be sold is in quarantine."""
    await service.faults_tell(cx.tx, cx.node_id, told.faults, strikes_max=cx.policy.number("nodes.strikes_max"))
    return Done()


@operation(
    "POST",
    "/slots/{slot_id}/return",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="slot.return",
    status=202,
    tag="slots",
    errors=(Code.SLOT_MISSING, Code.SLOT_NOT_QUARANTINED, Code.SLOT_DISPUTED, Code.NODE_MISSING, *_ASKS),
)
async def slot_return(cx: PlatformContext, slot_id: SlotId, wanted: NodeReason) -> TaskView:
    """Have a GPU checked under load. If that passes, it is sold again: there is no other way back."""
    return task_view(await service.slot_return(cx.tx, slot_id))


@operation(
    "POST",
    "/nodes/{node_id}/return",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="node.return",
    status=202,
    tag="nodes",
    errors=(Code.NODE_MISSING, Code.NODE_NOT_QUARANTINED, Code.NODE_IN_USE, *_ASKS),
)
async def node_return(cx: PlatformContext, node_id: NodeId, wanted: NodeReason) -> TaskView:
    """Have all GPUs of a node in quarantine checked under load. If that passes, the node is sold again."""
    return task_view(await service.node_return(cx.tx, node_id))


@operation(
    "GET",
    "/nodes/{node_id}/health",
    permission=P.NODES_READ,
    lane=Lane.DEFAULT,
    tag="nodes",
    errors=(Code.NODE_MISSING,),
)
async def node_health_list(cx: PlatformContext, node_id: NodeId, query: HealthHistoryQuery) -> Page[HealthEntry]:
    """List what was found of a node's health, the newest first: checks, faults, quarantines, returns."""
    await registry.node_get(cx.tx, node_id)
    rows = await service.history(cx.tx, node_id, serial=query.serial, before=_before(cx, query), limit=query.limit + 1)
    return page(cx, query, rows, _entry)


def _entry(row: HealthRow) -> HealthEntry:
    return HealthEntry(
        id=row.id,
        node_id=row.node_id,
        serial=row.serial,
        kind=row.kind,
        good=row.good,
        code=row.code,
        detail=row.detail,
        at=row.at,
    )


def _before(cx: PlatformContext, query: HealthHistoryQuery) -> UUID:
    position = cx.cursor_position(query.cursor)
    if position is None:
        return _LAST
    try:
        return UUID(position[0])
    except (IndexError, ValueError) as error:
        raise CursorRefused from error
