"""Operations on agents' versions: an operator's, and the one by which a node fetches what it was told to become."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.artifacts import (
    PART_BODY,
    ArtifactCreate,
    ArtifactListQuery,
    ArtifactPart,
    ArtifactRetire,
    ArtifactView,
    NodeAgentUpdate,
    PartNumber,
)
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.nodes import TaskView
from gpuaas.contracts.permissions import P
from gpuaas.domains.nodes.artifacts import service
from gpuaas.domains.nodes.artifacts.models import Part
from gpuaas.domains.nodes.artifacts.views import artifact_view
from gpuaas.domains.nodes.tasks.views import task_view
from gpuaas.infra.http.context import AgentContext, Context, PlatformContext
from gpuaas.infra.http.listing import after, page
from gpuaas.infra.http.operation import Lane, Stream, Wire, operation
from gpuaas.kit.ids import ArtifactId, NodeId
from gpuaas.ports.objects import Objects

_ONE = "/agent-artifacts/{artifact_id}"
_TAG = "agent artifacts"
_MOVES = (Code.ARTIFACT_MISSING, Code.STATE_MOVE_REFUSED)


@operation(
    "POST",
    "/agent-artifacts",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="artifact.create",
    status=201,
    tag=_TAG,
    errors=(Code.ARTIFACT_VERSION_TAKEN, Code.ARTIFACT_TOO_LARGE),
)
async def artifact_create(cx: PlatformContext, wanted: ArtifactCreate) -> ArtifactView:
    """Begin the upload of a version of the agent, saying what the file will be.

    The file is a tar archive with a program `agent` in it. Its parts follow within the hour."""
    most = cx.policy.number("nodes.agent_artifact_max_mib")
    return artifact_view(await service.artifact_create(cx.tx, wanted, most_mib=most))


async def _keep(cx: PlatformContext, artifact_id: ArtifactId, number: PartNumber, wanted: ArtifactPart) -> Part:
    return await service.part_keep(cx.db, _objects(cx), artifact_id, number, wanted.content)


@operation(
    "PUT",
    _ONE + "/parts/{number}",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="artifact.upload",
    tag=_TAG,
    prepare=_keep,
    body_limit=PART_BODY,
    errors=_MOVES,
)
async def artifact_upload(
    cx: PlatformContext, artifact_id: ArtifactId, number: PartNumber, wanted: ArtifactPart
) -> ArtifactView:
    """Upload a part of a version of the agent, numbered from 1; again, it replaces the part."""
    part: Part = cx.prepared
    cx.audit_details = {"wanted": {"digest": part.digest, "size": part.size}}
    return artifact_view(await service.part_add(cx.tx, part))


async def _verify(cx: PlatformContext, artifact_id: ArtifactId) -> list[Part]:
    return await service.artifact_verify(cx.db, _objects(cx), artifact_id)


@operation(
    "POST",
    _ONE + "/publish",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="artifact.publish",
    tag=_TAG,
    prepare=_verify,
    errors=(*_MOVES, Code.ARTIFACT_DAMAGED, Code.ARTIFACT_VERSION_TAKEN),
)
async def artifact_publish(cx: PlatformContext, artifact_id: ArtifactId) -> ArtifactView:
    """Publish a version of the agent: what was uploaded is read back and must be the file that was said."""
    return artifact_view(await service.artifact_publish(cx.tx, artifact_id, cx.prepared))


@operation(
    "POST",
    _ONE + "/retire",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="artifact.retire",
    tag=_TAG,
    errors=_MOVES,
)
async def artifact_retire(cx: PlatformContext, artifact_id: ArtifactId, wanted: ArtifactRetire) -> ArtifactView:
    """Retire a version of the agent: no node is told to become it any more. Nodes that are it stay so."""
    return artifact_view(await service.artifact_retire(cx.tx, artifact_id))


@operation("GET", "/agent-artifacts", permission=P.NODES_READ, lane=Lane.DEFAULT, tag=_TAG)
async def artifact_list(cx: PlatformContext, query: ArtifactListQuery) -> Page[ArtifactView]:
    """List versions of the agent, the oldest first."""
    rows = await service.artifact_list(
        cx.tx, state=query.state, version=query.version, after=after(cx, query), limit=query.limit + 1
    )
    return page(cx, query, rows, artifact_view)


@operation(
    "POST",
    "/nodes/{node_id}/agent-update",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="node.agent_update",
    status=202,
    tag="nodes",
    errors=(Code.NODE_MISSING, Code.STATE_MOVE_REFUSED, Code.TASK_QUEUE_FULL, Code.ARTIFACT_MISSING),
)
async def node_agent_update(cx: PlatformContext, node_id: NodeId, wanted: NodeAgentUpdate) -> TaskView:
    """Tell a node's agent to become a published version; it comes back to its own if that is not healthy in time."""
    return task_view(await service.node_agent_update(cx.tx, node_id, wanted))


@operation(
    "GET",
    "/artifacts/{artifact_id}",
    lane=Lane.DEFAULT,
    wire=Wire.AGENT,
    produces="application/octet-stream",
    tag="agent",
    errors=(Code.ARTIFACT_MISSING,),
)
async def agent_artifact(cx: AgentContext, artifact_id: ArtifactId) -> Stream:
    """Fetch the version of the agent that a task in hand names. Any other is as if it were not."""
    parts = await service.artifact_of_node(cx.tx, cx.node_id, artifact_id)
    return Stream(service.content(_objects(cx), parts), "application/octet-stream", f"{artifact_id}.tar")


def _objects(cx: Context) -> Objects:
    return cx.parts.get(Objects)  # type: ignore[type-abstract] # the part is whatever implements it
