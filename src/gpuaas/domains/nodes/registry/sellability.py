"""Whether a GPU can be sold now, and if not, why: a pure function of what is known."""

from gpuaas.contracts.http.nodes import Liveness, NodeHealth, NodeState
from gpuaas.domains.inventory.hardware import Difference
from gpuaas.domains.nodes.registry.models import Node

MAX_DIFFERENCES = 5


def health_of(node: Node) -> NodeHealth:
    if node.quarantine_reason is not None:
        return NodeHealth.QUARANTINED
    if node.host_healthy is None:
        return NodeHealth.UNCHECKED
    return NodeHealth.HEALTHY if node.host_healthy else NodeHealth.UNHEALTHY


def why_node_not(node: Node) -> list[str]:
    """Every reason that keeps the whole node from being sold; empty: none."""
    health = health_of(node)
    reasons = [
        (node.state is not NodeState.ACTIVE, f"the node is {node.state}"),
        (node.liveness is not Liveness.ONLINE, _LIVENESS[node.liveness]),
        (node.cordoned, "the node is cordoned"),
        (node.drained, "the node is drained"),
        (health is NodeHealth.QUARANTINED, f"the node is in quarantine: {node.quarantine_reason}"),
        (node.inspected_at is None, "the node's hardware was not looked at yet"),
        (health is NodeHealth.UNCHECKED, "the node's health was not checked yet"),
        (health is NodeHealth.UNHEALTHY, f"the node is not healthy: {node.host_detail}"),
        (
            bool(node.differences),
            "its hardware is not that of its SKU: " + "; ".join(node.differences[:MAX_DIFFERENCES]),
        ),
    ]
    return [reason for holds, reason in reasons if holds]


def why_slot_not(node: Node, *, present: bool, quarantine_reason: str | None, replaced_by: str = "") -> list[str]:
    """The same for one GPU: its node's reasons and its own. A sick sibling is none."""
    if replaced_by:
        return [f"the GPU was replaced by {replaced_by}"]
    own = [] if present else ["the GPU was not found at the last inspection"]
    if quarantine_reason is not None:
        own.append(f"the GPU is in quarantine: {quarantine_reason}")
    return own + why_node_not(node)


def of_the_node(differences: list[Difference], gpus_per_node: int, known: set[str], found: set[str]) -> list[str]:
    """The differences that speak against the whole node. GPUs that it had and that are gone speak for themselves:
    their slots are absent or taken by others, and their siblings are what they were."""
    gone = known - found
    explained = 0 < gpus_per_node - len(found) <= len(gone)
    of_the_gone = {f"GPU {serial}" for serial in gone} | ({"GPUs"} if explained else set())
    return [str(difference) for difference in differences if difference.what not in of_the_gone]


def occupied(node: Node) -> bool:
    """Whether somebody is on it, as its agent observes it."""
    return bool(node.accounts)


_LIVENESS: dict[Liveness, str] = {
    Liveness.NEW: "the node has never spoken",
    Liveness.ONLINE: "",
    Liveness.UNKNOWN: "the node is silent for longer than its lease",
    Liveness.LOST: "the node is lost",
}
