"""Operations on metrics."""

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.agent import TellMetrics
from gpuaas.contracts.http.base import Done
from gpuaas.contracts.http.nodes import MetricsQuery, NodeMetrics, SampleView
from gpuaas.contracts.permissions import P
from gpuaas.domains.nodes.metrics import service
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.infra.http.context import AgentContext, PlatformContext
from gpuaas.infra.http.operation import Lane, Wire, operation
from gpuaas.kit.ids import NodeId

BATCH_BYTES = 2 * 1024 * 1024


@operation("POST", "/metrics", lane=Lane.DEFAULT, wire=Wire.AGENT, tag="agent", body_limit=BATCH_BYTES)
async def agent_metrics(cx: AgentContext, told: TellMetrics) -> Done:
    """Ship samples of the host and its GPUs. What is sent again counts once; what is older than is kept does not."""
    await service.metrics_tell(cx.tx, cx.node_id, told)
    return Done()


@operation(
    "GET",
    "/nodes/{node_id}/metrics",
    permission=P.NODES_READ,
    lane=Lane.DEFAULT,
    tag="nodes",
    errors=(Code.NODE_MISSING,),
)
async def node_metrics(cx: PlatformContext, node_id: NodeId, query: MetricsQuery) -> NodeMetrics:
    """Show the last samples of a node's host and GPUs, the newest first."""
    await registry.node_get(cx.tx, node_id)
    rows = await service.node_metrics(cx.tx, node_id, minutes=query.minutes, limit=query.limit)
    return NodeMetrics(
        node_id=node_id,
        samples=[SampleView(at=row.at, values=msgspec.json.decode(row.values, type=dict[str, float])) for row in rows],
    )
