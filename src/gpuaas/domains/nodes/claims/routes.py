"""The claim of agents."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.agent import Claim, Claimed
from gpuaas.domains.nodes.claims.service import TaskWaiters, claim_wait
from gpuaas.infra.http.context import AgentContext
from gpuaas.infra.http.operation import Lane, Wire, operation


@operation(
    "POST",
    "/claim",
    lane=Lane.DEFAULT,
    wire=Wire.AGENT,
    transaction=False,
    tag="agent",
    errors=(Code.NODE_MISSING, Code.AGENT_STATE_ROLLED_BACK),
)
async def agent_claim(cx: AgentContext, wanted: Claim) -> Claimed:
    """Fetch tasks; waits until there is one, or the time is up. What was fetched and has not ended may be asked again.

    An agent that asks for numbers it has already proven to know has lost its memory: its node is quarantined."""
    return await claim_wait(cx.db, cx.parts.get(TaskWaiters), cx.node_id, wanted)
