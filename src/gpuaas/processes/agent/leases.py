"""Which GPUs of this host are whose: a note the agent keeps itself, on any host, so that no order can give one GPU to
two allocations, even if the control plane's memory were rolled back.

Always holds: a GPU is noted for one allocation at most; what is noted is on the disk before it is told, and survives a
restart; noting what is noted changes nothing, and `generation` counts what did. A damaged note is refused, not guessed
at."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import msgspec

from gpuaas.contracts.simulation import Point
from gpuaas.contracts.tasks.catalogue import LeaseResult, SlotLease, SlotUnlease, UnleaseResult
from gpuaas.contracts.tasks.topology import Topology
from gpuaas.ports.host import Host, HostFailed
from gpuaas.processes.agent.errors import AgentError
from gpuaas.processes.agent.state_directory import StateDirectory

FILE = "leases.json"
MOST = 64
"""Allocations on one host; as many as a heartbeat tells of."""
Passing = Callable[[Point], Awaitable[None]]
"""Called where faults on tap may strike; on a real host nothing does."""


class Noted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    generation: int = 0
    leases: dict[UUID, list[str]] = msgspec.field(default_factory=dict)


async def nothing_strikes(point: Point) -> None:
    return


class Leases:
    def __init__(self, state: StateDirectory, host: Host, passing: Passing = nothing_strikes) -> None:
        self._state, self._host, self._passing = state, host, passing
        self._noted = _read(state)
        self._known: set[str] = set()
        self._turn = asyncio.Lock()

    @property
    def all(self) -> dict[UUID, list[str]]:
        """As a heartbeat tells of them."""
        return dict(self._noted.leases)

    def saw(self, topology: Topology) -> None:
        """These GPUs were found on the host."""
        self._known = {gpu.serial for gpu in topology.gpus}

    async def lease(self, wanted: SlotLease) -> LeaseResult:
        async with self._turn:
            await self._passing(Point.BEFORE)
            await self._require_here(wanted.serials)
            self.require_free(wanted.serials, wanted.allocation_id)
            before = self._noted.leases.get(wanted.allocation_id, [])
            serials = sorted({*before, *wanted.serials})
            if serials != before:
                if len(self._noted.leases) >= MOST and not before:
                    raise HostFailed("too_many_leases", f"{MOST} allocations have GPUs on this host")
                await self._note({**self._noted.leases, wanted.allocation_id: serials})
            await self._passing(Point.AFTER)
            return LeaseResult(serials=serials)

    async def unlease(self, wanted: SlotUnlease) -> UnleaseResult:
        async with self._turn:
            await self._passing(Point.BEFORE)
            existed = wanted.allocation_id in self._noted.leases
            if existed:
                others = {one: gpus for one, gpus in self._noted.leases.items() if one != wanted.allocation_id}
                await self._note(others)
            await self._passing(Point.AFTER)
            return UnleaseResult(existed=existed)

    def require_free(self, serials: list[str], allocation_id: UUID | None) -> None:
        """Refuse GPUs that another allocation has."""
        for holder, leased in self._noted.leases.items():
            taken = sorted(set(serials) & set(leased))
            if taken and holder != allocation_id:
                # Not to whom: the allocation that was refused is told this, and heartbeats tell the operator.
                raise HostFailed("slot_leased", f"{', '.join(taken)} is leased to another allocation")

    async def _require_here(self, serials: list[str]) -> None:
        if not set(serials) <= self._known:
            self.saw(await self._host.inspect())
        unknown = sorted(set(serials) - self._known)
        if unknown:
            raise HostFailed("gpu_unknown", f"there is no GPU {', '.join(unknown)} on this host")

    async def _note(self, leases: dict[UUID, list[str]]) -> None:
        noted = Noted(generation=self._noted.generation + 1, leases=leases)
        await self._passing(Point.DURING)
        self._state.write(FILE, msgspec.json.encode(noted))
        self._noted = noted  # nothing may come between: a task that is cancelled has noted all of it, or nothing


def _read(state: StateDirectory) -> Noted:
    content = state.read(FILE)
    try:
        return Noted() if content is None else msgspec.json.decode(content, type=Noted)
    except msgspec.MsgspecError:
        path = state.path / FILE
        raise AgentError(f"{path} is damaged: remove it when nobody's account is left on this host") from None
