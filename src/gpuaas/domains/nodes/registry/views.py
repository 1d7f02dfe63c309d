"""Nodes as they are shown."""

import msgspec

from gpuaas.contracts.http.nodes import NodeView, Quarantine
from gpuaas.domains.nodes.registry.models import GpuCount, Node
from gpuaas.domains.nodes.registry.sellability import health_of, why_node_not


def node_view(node: Node, gpus: GpuCount) -> NodeView:
    why_not = why_node_not(node)
    return NodeView(
        id=node.id,
        name=node.name,
        region=node.region,
        sku_id=node.sku_id,
        address=node.address,
        labels=msgspec.json.decode(node.labels, type=dict[str, str]),
        tags=node.tags,
        state=node.state,
        cordoned=node.cordoned,
        drained=node.drained,
        generation=node.generation,
        observed_generation=node.observed_generation,
        liveness=node.liveness,
        last_seen_at=node.seen_at,
        agent_version=node.agent_version,
        boot_id=node.boot_id,
        accounts=node.accounts,
        health=health_of(node),
        quarantine=quarantine_view(node),
        differences=node.differences,
        gpus=gpus.usable,
        gpus_expected=gpus.expected,
        sellable=not why_not,
        why_not=why_not,
        inspected_at=node.inspected_at,
        checked_at=node.checked_at,
        enrolled_at=node.enrolled_at,
        created_at=node.created_at,
    )


def quarantine_view(node: Node) -> Quarantine | None:
    if node.quarantine_reason is None or node.quarantined_at is None:
        return None
    return Quarantine(reason=node.quarantine_reason, detail=node.quarantine_detail, since=node.quarantined_at)
