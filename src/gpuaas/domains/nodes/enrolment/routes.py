"""Operations by which a machine becomes a node: the operator's invitation, the agent's answer to it, and trust."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.agent import Enrol, Enrolled, TrustView
from gpuaas.contracts.http.nodes import NodeCreate, NodeCreated, NodeReason
from gpuaas.contracts.permissions import P
from gpuaas.domains.nodes.enrolment import service
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.domains.nodes.registry.models import Addresses
from gpuaas.domains.pki.site import Pki
from gpuaas.infra.http.context import AgentContext, PlatformContext, PublicContext
from gpuaas.infra.http.operation import Lane, Wire, operation
from gpuaas.kit.ids import NodeId


@operation(
    "POST",
    "/nodes",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="node.create",
    status=201,
    tag="nodes",
    errors=(Code.NODE_NAME_TAKEN, Code.SKU_MISSING),
)
async def node_create(cx: PlatformContext, wanted: NodeCreate) -> NodeCreated:
    """Create a node, with the command that enrols its agent.

    The command is run on the machine, once, within the hour; its token is shown only here."""
    node_id = await registry.node_create(cx.tx, wanted)
    return await _invited(cx, node_id)


@operation(
    "POST",
    "/nodes/{node_id}/reenrol",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="node.reenrol",
    status=201,
    tag="nodes",
    errors=(Code.NODE_MISSING, Code.STATE_MOVE_REFUSED),
)
async def node_reenrol(cx: PlatformContext, node_id: NodeId, wanted: NodeReason) -> NodeCreated:
    """Have a node enrolled again, after its machine or its agent's state was lost.

    Its certificates end now; the command works once, within the hour, and is shown only here."""
    await registry.node_reenrol(cx.tx, node_id)
    return await _invited(cx, node_id)


@operation(
    "POST",
    "/nodes/enrol",
    lane=Lane.ENROLMENT,
    audit="node.enrol",
    status=201,
    tag="nodes",
    errors=(
        Code.BOOTSTRAP_TOKEN_REFUSED,
        Code.CSR_REFUSED,
        Code.NODE_MISSING,
        Code.STATE_MOVE_REFUSED,
        Code.TASK_QUEUE_FULL,
    ),
)
async def node_enrol(cx: PublicContext, wanted: Enrol) -> Enrolled:
    """Enrol an agent: a single-use token and a certificate request for a certificate that names the node.

    Before a worker has announced the key that signs tasks, nobody is enrolled, and the token stays good."""
    enrolled = await service.node_enrol(
        cx.tx, cx.parts.get(Pki), wanted, seconds=cx.policy.number("pki.node_certificate_seconds")
    )
    cx.subject_id = enrolled.node_id
    return enrolled


@operation("GET", "/trust", lane=Lane.DEFAULT, wire=Wire.AGENT, tag="agent")
async def agent_trust(cx: AgentContext) -> TrustView:
    """Tell whom to believe: our certificate authorities, and the keys tasks are signed with."""
    return await service.trust_view(cx.tx)


async def _invited(cx: PlatformContext, node_id: UUID) -> NodeCreated:
    return await service.node_invite(
        cx.tx,
        node_id,
        seconds=cx.policy.number("pki.bootstrap_token_seconds"),
        lease=cx.policy.number("nodes.lease_seconds"),
        public_url=cx.parts.get(Addresses).public_url,
    )
