"""Which GPUs a request is given, of those that are free: a pure choice.

Always holds: all nodes asked for or none; on each the GPUs of one NUMA group, or all of the node; each with the disk
and fabric device beside it that the SKU needs. Packed tightly, so that large requests keep fitting: small ones go where
the fewest GPUs are free, from one end of the nodes; whole nodes are taken from the other end."""

from collections.abc import Iterable, Sequence
from random import Random

from gpuaas.domains.allocations.placement.explaining import why_here
from gpuaas.domains.allocations.placement.models import Ask, Candidate, Choice, Room
from gpuaas.domains.inventory.models import Sku
from gpuaas.kit.ids import NodeId


def choose(ask: Ask, candidates: Iterable[Candidate], *, dice: Random | None = None) -> Choice | None:
    """None: nothing fits. With dice, equals are told apart by them: for those who have just lost a race."""
    rooms = [room for free in _by_node(ask.sku, candidates) if (room := _room(ask, free)) is not None]
    if len(rooms) < ask.node_count:
        return None
    if dice is not None:
        dice.shuffle(rooms)
    elif ask.whole:
        rooms.sort(key=lambda room: room.node_id.int, reverse=True)
    else:
        rooms.sort(key=lambda room: room.node_id.int)
    rooms.sort(key=lambda room: room.free_on_node)
    chosen = tuple(rooms[: ask.node_count])
    return Choice(rooms=chosen, summary=why_here(ask, chosen, of=len(rooms)))


def paired(sku: Sku, candidate: Candidate) -> bool:
    """It has beside it what the SKU promises."""
    return (candidate.nvme or not sku.needs_nvme) and (candidate.fabric or not sku.needs_fabric)


def _by_node(sku: Sku, candidates: Iterable[Candidate]) -> list[list[Candidate]]:
    nodes: dict[NodeId, list[Candidate]] = {}
    for candidate in candidates:
        if paired(sku, candidate):
            nodes.setdefault(candidate.node_id, []).append(candidate)
    return list(nodes.values())


def _room(ask: Ask, free: Sequence[Candidate]) -> Room | None:
    """The tightest room on one node; None: it has none."""
    if len(free) < ask.gpu_count:
        return None
    if ask.whole:
        return _room_of(free, free, numa=None)
    groups: dict[int, list[Candidate]] = {}
    for candidate in free:
        groups.setdefault(candidate.numa, []).append(candidate)
    fitting = [(len(group), numa) for numa, group in groups.items() if len(group) >= ask.gpu_count]
    if not fitting:
        return None
    _, numa = min(fitting)
    return _room_of(free, groups[numa], numa=numa)


def _room_of(free: Sequence[Candidate], group: Sequence[Candidate], *, numa: int | None) -> Room:
    in_order = sorted(group, key=lambda candidate: candidate.gpu_index)
    return Room(
        node_id=free[0].node_id,
        node_name=free[0].node_name,
        numa=numa,
        free_on_node=len(free),
        slots=tuple(candidate.slot_id for candidate in in_order),
    )
