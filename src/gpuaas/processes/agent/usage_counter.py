"""For how many seconds each lease's GPUs could be used, counted here whether or not anybody hears of it: after the
control plane was away, this is what it charges by, not the silence.

Always holds: a counter only grows, by the monotonic clock, and only while every GPU of the lease answers and has no
fault; time in which this agent did not look is not counted; what is told was on the disk before."""

from collections.abc import Callable, Collection, Mapping, Sequence
from uuid import UUID

import msgspec

from gpuaas.kit import clock, log
from gpuaas.processes.agent.state_directory import StateDirectory

FILE = "usage.json"
LONGEST_GAP = 60.0
"""Between two looks; a longer one says nothing about the time between."""


class UsageCounter:
    def __init__(self, state: StateDirectory, monotonic: Callable[[], float] = clock.monotonic) -> None:
        self._state, self._monotonic = state, monotonic
        self._looked: float | None = None
        self._seconds: dict[UUID, float] = {}
        kept = state.read(FILE)
        if kept:
            try:
                self._seconds = msgspec.json.decode(kept, type=dict[UUID, float])
            except msgspec.MsgspecError:  # counted anew: less than it was, and so never too much
                log.get_logger().error("the counters of usage are damaged and begin anew")

    @property
    def all(self) -> dict[UUID, int]:
        return {who: int(seconds) for who, seconds in self._seconds.items()}

    def look(self, leases: Mapping[UUID, Sequence[str]], usable: Collection[str]) -> None:
        """These are leased now, and these GPUs can be used."""
        now, before = self._monotonic(), self._looked
        self._looked = now
        passed = 0.0 if before is None or now - before > LONGEST_GAP else max(now - before, 0.0)
        counted = {
            who: self._seconds.get(who, 0.0) + (passed if serials and set(serials) <= set(usable) else 0.0)
            for who, serials in leases.items()
        }
        if counted != self._seconds:
            self._state.write(FILE, msgspec.json.encode(counted))
            self._seconds = counted
