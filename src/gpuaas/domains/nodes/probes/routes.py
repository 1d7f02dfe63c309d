"""The probe of a node's address."""

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.nodes import NodeProbe, ProbeView
from gpuaas.contracts.permissions import P
from gpuaas.domains.nodes.probes.service import ProbeRules
from gpuaas.domains.nodes.probes.service import node_probe as probe
from gpuaas.infra.http.context import PlatformContext
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit.ids import NodeId
from gpuaas.ports.prober import Prober


async def _probe(cx: PlatformContext, node_id: NodeId, wanted: NodeProbe) -> ProbeView:
    prober = cx.parts.get(Prober)  # type: ignore[type-abstract] # the part is whatever implements it
    return await probe(cx.db, prober, cx.parts.get(ProbeRules), node_id, wanted.port)


@operation(
    "POST",
    "/nodes/{node_id}/probe",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="node.probe",
    tag="nodes",
    prepare=_probe,
    errors=(Code.NODE_MISSING, Code.PROBE_REFUSED),
)
async def node_probe(cx: PlatformContext, node_id: NodeId, wanted: NodeProbe) -> ProbeView:
    """Try whether a node's address can be reached: a connection is opened and closed, nothing is sent.

    Only addresses in the networks that are allowed are tried; this machine, the link, many at once and metadata
    services never are."""
    view: ProbeView = cx.prepared
    return view
