"""Faults on tap: which are in force, and where in a verb they strike. Those that interrupt strike once."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from gpuaas.contracts.simulation import Point
from gpuaas.contracts.tasks.topology import FaultKind
from gpuaas.infra.hosts.linux.xid_catalogue import xid_kind
from gpuaas.kit import clock


def kind_of(xid: int) -> FaultKind:
    """What an NVIDIA driver's number means for the GPU, as on a real host."""
    return xid_kind(xid) or FaultKind.APPLICATION


class Tap:
    """`crash` ends the agent as a kill would; `cut` takes the network from it."""

    def __init__(self) -> None:
        self.hang = False
        self.crash_at: Point | None = None
        self.network_dropped = False
        self.crash: Callable[[], Awaitable[None]] = _no_crash
        self.cut: Callable[[bool], None] = lambda _: None
        self._mending: asyncio.TimerHandle | None = None

    async def point(self, point: Point) -> None:
        """A verb passes here."""
        if self.hang and point is Point.DURING:
            self.hang = False
            await asyncio.Event().wait()
        if self.crash_at is point:
            self.crash_at = None
            await self.crash()

    def drop_network(self, seconds: float) -> None:
        self.mend_network()
        self.network_dropped = True
        self.cut(True)
        if seconds > 0:
            self._mending = asyncio.get_running_loop().call_later(seconds, self.mend_network)

    def mend_network(self) -> None:
        if self._mending is not None:
            self._mending.cancel()
            self._mending = None
        if self.network_dropped:
            self.network_dropped = False
            self.cut(False)

    def clear(self) -> None:
        self.hang, self.crash_at = False, None
        self.mend_network()

    def names(self) -> list[str]:
        in_force = {
            "hang_next_task": self.hang,
            "crash_mid_task": self.crash_at is not None,
            "drop_network": self.network_dropped,
        }
        return [name for name, on in in_force.items() if on]


async def _no_crash() -> None:
    raise RuntimeError("this agent cannot be crashed")


def skewed(seconds: Callable[[], float]) -> Callable[[], datetime]:
    """A clock that is wrong by so much."""
    return lambda: clock.now() + timedelta(seconds=seconds())
