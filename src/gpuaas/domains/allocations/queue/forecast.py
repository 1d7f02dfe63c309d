"""When those who wait will start: a simulation of leases that end, one after the other, and of the queue served at each
end. Pure. Leases may be renewed or given back early, so it is an estimate; None: it cannot be told."""

import heapq
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from uuid import UUID

from gpuaas.domains.allocations.placement.models import Group
from gpuaas.domains.allocations.queue.models import Lease, Waiting
from gpuaas.domains.allocations.queue.order import out_of_patience
from gpuaas.kit.ids import NodeId

CLEANING = timedelta(minutes=2)
"""From the end of a lease until its GPUs are proven clean."""
MAX_ENDS = 20_000
"""How many ends of leases are gone through; what would start after them cannot be told."""
MAX_LINE = 2_000
_LOOKED_AT = 64

Taken = list[tuple[NodeId, int, int]]
"""So many GPUs of a group of a node."""


class _Floor:
    """Free GPUs by node and group, and which nodes have room for each size somebody waits for."""

    def __init__(self, groups: Iterable[Group], gpus_per_node: int, sizes: set[int]) -> None:
        self._per_node = gpus_per_node
        self._free: dict[NodeId, dict[int, int]] = {}
        self._rooms: dict[int, dict[NodeId, None]] = {size: {} for size in sizes}
        for group in groups:
            self._free.setdefault(group.node_id, {})[group.numa] = group.free
        for node_id in self._free:
            self._look(node_id)

    def give(self, taken: Taken) -> None:
        for node_id, numa, gpus in taken:
            if node_id in self._free and numa in self._free[node_id]:
                self._free[node_id][numa] += gpus
                self._look(node_id)

    def take(self, size: int, nodes: int) -> Taken | None:
        rooms = self._rooms[size]
        if len(rooms) < nodes:
            return None
        some = list(islice(rooms, max(_LOOKED_AT, nodes)))
        taken: Taken = []
        for node_id in sorted(some, key=lambda one: sum(self._free[one].values()))[:nodes]:
            taken += self._take_on(node_id, size)
        return taken

    def _take_on(self, node_id: NodeId, size: int) -> Taken:
        groups = self._free[node_id]
        if size == self._per_node:
            taken = [(node_id, numa, free) for numa, free in groups.items() if free]
        else:
            numa = min((free, numa) for numa, free in groups.items() if free >= size)[1]
            taken = [(node_id, numa, size)]
        for _, numa, gpus in taken:
            groups[numa] -= gpus
        self._look(node_id)
        return taken

    def _look(self, node_id: NodeId) -> None:
        groups = self._free[node_id]
        for size, rooms in self._rooms.items():
            most = sum(groups.values()) if size == self._per_node else max(groups.values())
            if most >= size:
                rooms[node_id] = None
            else:
                rooms.pop(node_id, None)


def starts(
    line: Sequence[Waiting],
    groups: Iterable[Group],
    leases: Iterable[Lease],
    *,
    gpus_per_node: int,
    now: datetime,
    patience: timedelta,
) -> dict[UUID, datetime]:
    """Of those in the line, in its order: when each starts. Those of whom it cannot be told are missing."""
    pending = list(line[:MAX_LINE])
    floor = _Floor(groups, gpus_per_node, {entry.gpu_count for entry in pending})
    ends = [
        (max(lease.expires_at, now) + CLEANING, number, [(lease.node_id, lease.numa, lease.gpus)])
        for number, lease in enumerate(leases)
        if lease.state != "release_failed"
    ]
    heapq.heapify(ends)
    found: dict[UUID, datetime] = {}
    at = now
    for _ in range(MAX_ENDS):
        pending = _serve(floor, pending, ends, found, at=at, patience=patience)
        if not pending or not ends:
            break
        at = ends[0][0]
        while ends and ends[0][0] == at:
            floor.give(heapq.heappop(ends)[2])
    return found


def _serve(
    floor: _Floor,
    pending: list[Waiting],
    ends: list[tuple[datetime, int, Taken]],
    found: dict[UUID, datetime],
    *,
    at: datetime,
    patience: timedelta,
) -> list[Waiting]:
    """As the queue does it: in order, past those that do not fit, unless one has lost its patience."""
    left: list[Waiting] = []
    hopeless: set[tuple[int, int]] = set()
    for place, entry in enumerate(pending):
        shape = (entry.gpu_count, entry.node_count)
        taken = None if shape in hopeless else floor.take(*shape)
        if taken is not None:
            found[entry.id] = at
            ends_at = at + timedelta(seconds=entry.lease_seconds) + CLEANING
            heapq.heappush(ends, (ends_at, -len(found), taken))
            continue
        hopeless.add(shape)
        left.append(entry)
        if out_of_patience(entry, now=at, patience=patience):
            return left + pending[place + 1 :]
    return left


def could_fit(groups: Iterable[Group], entry: Waiting, *, gpus_per_node: int) -> bool:
    """On what is sold from now, if nobody held anything: one that could not is not waited for by those behind it."""
    empty = [Group(group.node_id, group.numa, group.built, group.built) for group in groups]
    return _Floor(empty, gpus_per_node, {entry.gpu_count}).take(entry.gpu_count, entry.node_count) is not None
