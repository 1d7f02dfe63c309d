"""What runs by itself around liveness: noticing silence, and looking again at a node that came back."""

from prometheus_client import Counter

from gpuaas.contracts.events.base import Envelope
from gpuaas.contracts.events.provisioning import NodeRecovered
from gpuaas.contracts.http.nodes import Liveness
from gpuaas.domains.nodes.liveness import service
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.infra.events import reaction, timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit import log
from gpuaas.kit.errors import Missing
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader

SILENT = Counter("gpuaas_nodes_silent", "Nodes that became unknown or lost.", ["liveness"])


@timer("nodes.silence", every_seconds=1)
async def silence_notice(parts: Parts) -> None:
    policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    async with parts.get(Database).transaction(Sight(PLATFORM), "system:nodes.silence") as tx:
        unknown, lost = await service.silence_note(
            tx, lease_seconds=policy.number("nodes.lease_seconds"), lost_seconds=policy.number("nodes.lost_seconds")
        )
    for liveness, nodes in (("unknown", unknown), ("lost", lost)):
        if nodes:
            SILENT.labels(liveness).inc(len(nodes))
            log.get_logger().warning("nodes are silent", liveness=liveness, nodes=[str(one) for one in nodes[:20]])


@reaction("nodes.recheck", to=NodeRecovered)
async def node_recheck(tx: Tx, event: NodeRecovered, envelope: Envelope) -> None:
    """Whatever happened while it was silent: its hardware and health are looked at again. Of one that was lost, or has
    started anew, nothing is sold by what was found before."""
    try:
        forget = event.rebooted or event.from_liveness == Liveness.LOST
        await registry.node_look_again(tx, event.node_id, forget=forget)
    except Missing:
        log.get_logger().info("the recovered node is gone", node_id=str(event.node_id))
