"""Operations on nodes: those of operators, and the enrolment of an agent with its token."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Done, Page
from gpuaas.contracts.http.nodes import (
    NodeCheck,
    NodeListQuery,
    NodeReason,
    NodeUpdate,
    NodeView,
    TaskView,
)
from gpuaas.contracts.permissions import P
from gpuaas.domains.nodes.fleet.service import gpu_counts
from gpuaas.domains.nodes.registry import service
from gpuaas.domains.nodes.registry.models import Wanted
from gpuaas.domains.nodes.registry.views import node_view
from gpuaas.domains.nodes.tasks.views import task_view
from gpuaas.infra.http.context import PlatformContext
from gpuaas.infra.http.listing import after, page
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit.ids import NodeId

_NODE = "/nodes/{node_id}"
_KNOWN = (Code.NODE_MISSING,)
_MOVES = (Code.NODE_MISSING, Code.STATE_MOVE_REFUSED)
_ASKS = (*_MOVES, Code.TASK_QUEUE_FULL)


@operation("GET", "/nodes", permission=P.NODES_READ, lane=Lane.DEFAULT, tag="nodes")
async def node_list(cx: PlatformContext, query: NodeListQuery) -> Page[NodeView]:
    """List nodes by state, region, SKU, label, liveness or health."""
    name, has_value, value = (query.label or "").partition("=")
    wanted = Wanted(
        state=query.state,
        region=query.region,
        sku_id=query.sku_id,
        liveness=query.liveness,
        health=query.health,
        label_name=name if name and not has_value else None,
        labels={name: value} if has_value else None,
    )
    rows = await service.list_all(cx.tx, wanted, lease=_lease(cx), after=after(cx, query), limit=query.limit + 1)
    gpus = await gpu_counts(cx.tx, rows)
    return page(cx, query, rows, lambda node: node_view(node, gpus[node.id]))


@operation("GET", _NODE, permission=P.NODES_READ, lane=Lane.DEFAULT, tag="nodes", errors=_KNOWN)
async def node_get(cx: PlatformContext, node_id: NodeId) -> NodeView:
    """Show a node: what is wanted of it, what its agent observes, and why it can or cannot be sold."""
    return await _shown(cx, node_id)


@operation("PATCH", _NODE, permission=P.NODES_MANAGE, lane=Lane.ADMIN, audit="node.update", tag="nodes", errors=_KNOWN)
async def node_update(cx: PlatformContext, node_id: NodeId, wanted: NodeUpdate) -> NodeView:
    """Change a node's labels, tags or address."""
    await service.node_update(cx.tx, node_id, wanted)
    return await _shown(cx, node_id)


@operation(
    "POST",
    _NODE + "/cordon",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="node.cordon",
    tag="nodes",
    errors=_KNOWN,
)
async def node_cordon(cx: PlatformContext, node_id: NodeId, wanted: NodeReason) -> NodeView:
    """Place nothing new on a node. What is on it stays."""
    await service.node_cordon(cx.tx, node_id, cordoned=True)
    return await _shown(cx, node_id)


@operation(
    "POST",
    _NODE + "/uncordon",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="node.uncordon",
    tag="nodes",
    errors=_KNOWN,
)
async def node_uncordon(cx: PlatformContext, node_id: NodeId) -> NodeView:
    """Place things on a node again."""
    await service.node_cordon(cx.tx, node_id, cordoned=False)
    return await _shown(cx, node_id)


@operation(
    "POST",
    _NODE + "/drain",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="node.drain",
    tag="nodes",
    errors=(*_KNOWN, Code.TASK_QUEUE_FULL),
)
async def node_drain(cx: PlatformContext, node_id: NodeId, wanted: NodeReason) -> NodeView:
    """Let nobody new onto a node: nothing is placed on it, and its host refuses new logins."""
    await service.node_drain(cx.tx, node_id, drained=True)
    return await _shown(cx, node_id)


@operation(
    "POST",
    _NODE + "/undrain",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="node.undrain",
    tag="nodes",
    errors=(*_KNOWN, Code.TASK_QUEUE_FULL),
)
async def node_undrain(cx: PlatformContext, node_id: NodeId) -> NodeView:
    """Let people onto a node again."""
    await service.node_drain(cx.tx, node_id, drained=False)
    return await _shown(cx, node_id)


@operation(
    "POST",
    _NODE + "/disable",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="node.disable",
    tag="nodes",
    errors=(*_MOVES, Code.NODE_IN_USE),
)
async def node_disable(cx: PlatformContext, node_id: NodeId, wanted: NodeReason) -> NodeView:
    """Take a node out of service. Refused while somebody is on it; its agent is not listened to any more."""
    await service.node_disable(cx.tx, node_id)
    return await _shown(cx, node_id)


@operation(
    "POST",
    _NODE + "/enable",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="node.enable",
    tag="nodes",
    errors=_ASKS,
)
async def node_enable(cx: PlatformContext, node_id: NodeId) -> NodeView:
    """Take a node into service again; its hardware and health are looked at first."""
    await service.node_enable(cx.tx, node_id)
    return await _shown(cx, node_id)


@operation(
    "POST",
    _NODE + "/inspect",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="node.inspect",
    status=202,
    tag="nodes",
    errors=_ASKS,
)
async def node_inspect(cx: PlatformContext, node_id: NodeId) -> TaskView:
    """Have a node's hardware looked at. The task tells when it is done."""
    return task_view(await service.node_inspect(cx.tx, node_id))


@operation(
    "POST",
    _NODE + "/check",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="node.check",
    status=202,
    tag="nodes",
    errors=(*_ASKS, Code.NODE_IN_USE),
)
async def node_check(cx: PlatformContext, node_id: NodeId, wanted: NodeCheck) -> TaskView:
    """Have a node's health checked, under load if wanted: then nobody may be on it."""
    return task_view(await service.node_check(cx.tx, node_id, load=wanted.load))


@operation(
    "DELETE",
    _NODE,
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="node.remove",
    tag="nodes",
    errors=(*_MOVES, Code.NODE_IN_USE),
)
async def node_remove(cx: PlatformContext, node_id: NodeId) -> Done:
    """Remove a node. Refused while somebody is on it; its certificates end, and its name is free again.

    A lost node can be removed when all its allocations were released: releases that failed there end with it."""
    await service.node_remove(cx.tx, node_id)
    return Done()


async def _shown(cx: PlatformContext, node_id: UUID) -> NodeView:
    node = await service.node_get(cx.tx, node_id, lease=_lease(cx))
    return node_view(node, (await gpu_counts(cx.tx, [node]))[node.id])


def _lease(cx: PlatformContext) -> int:
    return cx.policy.number("nodes.lease_seconds")
