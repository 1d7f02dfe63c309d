"""The verb of probing. Always holds: what is connected to is one of the addresses that were checked, by its number, so
that a name that changes in between leads nowhere."""

from uuid import UUID

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.nodes import ProbeView
from gpuaas.domains.nodes.probes.addresses import Network, why_not
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.errors import Detail, Refused
from gpuaas.ports.prober import Prober, Unreachable


class ProbeRules(msgspec.Struct, frozen=True):
    """Put into the parts by the program's main."""

    allowed: tuple[Network, ...]


async def node_probe(db: Database, prober: Prober, rules: ProbeRules, node_id: UUID, port: int) -> ProbeView:
    """Whether the node's address can be reached from here. Uses the network: not inside of a transaction."""
    async with db.read(Sight(PLATFORM)) as tx:
        node = await registry.node_get(tx, node_id)
    if not node.address:
        raise _refused("the node has no address: set one first")
    try:
        found = await prober.resolve(node.address)
    except Unreachable as error:
        return ProbeView(node_id=node_id, address="", port=port, reached=False, detail=str(error), milliseconds=None)
    refused = [f"{address}: {reason}" for address in found if (reason := why_not(address, rules.allowed))]
    if refused or not found:
        raise _refused("; ".join(refused)[:200] or "it has no address")
    try:
        took = await prober.connect(found[0], port)
    except Unreachable as error:
        return ProbeView(
            node_id=node_id, address=found[0], port=port, reached=False, detail=str(error), milliseconds=None
        )
    return ProbeView(node_id=node_id, address=found[0], port=port, reached=True, detail="", milliseconds=round(took, 2))


def _refused(reason: str) -> Refused:
    return Refused(
        Code.PROBE_REFUSED, "This address is not one that may be probed.", details=[Detail("address", reason)]
    )
