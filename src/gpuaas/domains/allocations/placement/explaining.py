"""Placement in words: why these nodes, or why nothing fits and what would help. Nobody else's names are in them."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from gpuaas.domains.allocations.placement.models import Ask, NoFit, Reason, Room

MAX_NAMES = 8
_IN_WORDS: dict[Reason, str] = {
    Reason.HELD: "in use",
    Reason.FRAGMENTED: "free, but not together",
    Reason.CORDONED: "on nodes that take nothing new",
    Reason.DRAINED: "on nodes that are being emptied",
    Reason.SILENT: "on nodes that do not answer",
    Reason.UNHEALTHY: "on nodes that have not passed their health check",
    Reason.MISMATCH: "on nodes whose hardware is not that of the SKU",
    Reason.QUARANTINED: "in quarantine",
    Reason.UNPAIRED: "without the disk or fabric device the SKU needs",
    Reason.OUT_OF_SERVICE: "on nodes out of service",
}
_OPERATOR = "The operator has to bring nodes back; wait in the queue, or choose another SKU."
_HELP: dict[Reason, str] = {
    Reason.CORDONED: _OPERATOR,
    Reason.DRAINED: _OPERATOR,
    Reason.SILENT: "They are sold again when their nodes answer; wait in the queue, or choose another SKU.",
    Reason.UNHEALTHY: _OPERATOR,
    Reason.MISMATCH: _OPERATOR,
    Reason.QUARANTINED: "They return when they pass a test under load; wait in the queue, or choose another SKU.",
    Reason.UNPAIRED: _OPERATOR,
    Reason.OUT_OF_SERVICE: _OPERATOR,
    Reason.ABSENT: "Choose another SKU; the operator has no such nodes yet.",
}


def gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def why_here(ask: Ask, rooms: Sequence[Room], *, of: int) -> str:
    names = ", ".join(room.node_name for room in rooms[:MAX_NAMES])
    more = f" and {len(rooms) - MAX_NAMES} more" if len(rooms) > MAX_NAMES else ""
    where = f"{names}{more}"
    if ask.whole:
        what = "The whole node" if len(rooms) == 1 else f"{len(rooms)} whole nodes:"
        return f"{what} {where}: all {gpus(ask.gpu_count)} of each were free."
    if len(rooms) > 1:
        return f"{gpus(ask.gpu_count)} on each of {where}: of the nodes looked at, those with the fewest free GPUs."
    room = rooms[0]
    group = f", all in NUMA group {room.numa}" if ask.gpu_count > 1 else f", in NUMA group {room.numa}"
    why = "the only node looked at with room" if of == 1 else f"the fullest of {of} nodes with room"
    return f"{gpus(ask.gpu_count)} on {where}{group}: {why}, {gpus(room.free_on_node)} of it were free."


def explain(ask: Ask, counts: Mapping[Reason, int], *, nodes_large_enough: int, earliest_end: datetime | None) -> NoFit:
    """From what keeps each GPU of the SKU from being had."""
    dominant = _dominant(ask, counts, nodes_large_enough)
    return NoFit(
        counts=dict(counts),
        dominant=dominant,
        summary=" ".join(
            (
                _reason(ask, counts, dominant, nodes_large_enough),
                _unblocks(dominant, nodes_large_enough, earliest_end),
            )
        ),
        earliest_end=earliest_end,
    )


def _dominant(ask: Ask, counts: Mapping[Reason, int], nodes_large_enough: int) -> Reason:
    if not sum(counts.values()):
        return Reason.ABSENT
    if nodes_large_enough < ask.node_count:
        return Reason.TOO_LARGE
    if counts.get(Reason.FRAGMENTED, 0) >= ask.gpus:
        return Reason.FRAGMENTED
    return max(counts, key=lambda reason: (counts[reason], reason is Reason.HELD))


def _reason(ask: Ask, counts: Mapping[Reason, int], dominant: Reason, nodes_large_enough: int) -> str:
    wanted = gpus(ask.gpu_count) + (f" on each of {ask.node_count} nodes" if ask.node_count > 1 else "")
    if dominant is Reason.ABSENT:
        return f"There are no GPUs of {ask.sku.name}."
    if dominant is Reason.TOO_LARGE:
        together = "" if ask.whole or ask.gpu_count == 1 else " in one NUMA group"
        return f"{wanted}{together} cannot be had of {ask.sku.name}: {_nodes(nodes_large_enough)} could hold that."
    told = sorted(counts.items(), key=lambda item: (item[0] is not dominant, -item[1]))
    listed = ", ".join(f"{count} {_IN_WORDS[reason]}" for reason, count in told if count)
    return f"{wanted} of {ask.sku.name} cannot be had now: of {sum(counts.values())}, {listed}."


def _unblocks(dominant: Reason, nodes_large_enough: int, earliest_end: datetime | None) -> str:
    when = "" if earliest_end is None else f" The first lease ends at {earliest_end:%F %H:%M} UTC, unless renewed."
    if dominant is Reason.TOO_LARGE:
        fewer = f"on at most {nodes_large_enough}" if nodes_large_enough else "with fewer GPUs on each node"
        return f"Ask for it {fewer}."
    if dominant is Reason.FRAGMENTED:
        return "Ask for fewer GPUs together, or wait in the queue until some are given back side by side." + when
    if dominant is Reason.HELD:
        return "Wait in the queue, ask for fewer, or choose another SKU." + when
    return _HELP[dominant]


def _nodes(count: int) -> str:
    return {0: "no node", 1: "only one node"}.get(count, f"only {count} nodes")
