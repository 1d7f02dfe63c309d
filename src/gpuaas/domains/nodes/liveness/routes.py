"""The heartbeat of agents."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.agent import Desired, Heartbeat
from gpuaas.domains.nodes.liveness.service import Heartbeats
from gpuaas.infra.http.context import AgentContext
from gpuaas.infra.http.operation import Lane, Wire, operation


@operation(
    "POST",
    "/heartbeat",
    lane=Lane.DEFAULT,
    wire=Wire.AGENT,
    transaction=False,
    tag="agent",
    errors=(Code.NODE_MISSING,),
)
async def agent_heartbeat(cx: AgentContext, beat: Heartbeat) -> Desired:
    """Say that the node is there and what is on it; hear what is wanted of it. Renews its lease."""
    return await cx.parts.get(Heartbeats).beat(cx.node_id, beat)
