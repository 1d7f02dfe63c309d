"""Agents that wait for tasks, in this process. A hint wakes one within milliseconds; one question a second asks for all
of them together, so that a lost hint costs a second and five hundred idle agents cost nothing."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from uuid import UUID

from gpuaas.kit import log
from gpuaas.ports.hints import Hints

LOOK_SECONDS = 1.0
SUBJECT = "hint.tasks."
Look = Callable[[Collection[UUID]], Awaitable[Collection[UUID]]]
"""Which of these nodes have something to fetch."""


class Waiter:
    """One claim that waits. A newer claim of the same node takes its place: the older one's connection may be dead."""

    __slots__ = ("_event", "displaced")

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.displaced = False

    def wake(self) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Until woken, or the time is up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event.clear()


class TaskWaiters:
    def __init__(self, hints: Hints) -> None:
        self._waiting: dict[UUID, Waiter] = {}
        self._closed = False
        hints.listen(SUBJECT + "*", self._hinted)

    def enter(self, node_id: UUID) -> Waiter:
        waiter, before = Waiter(), self._waiting.get(node_id)
        self._waiting[node_id] = waiter
        waiter.displaced = self._closed
        if before is not None:
            before.displaced = True
            before.wake()
        return waiter

    def leave(self, node_id: UUID, waiter: Waiter) -> None:
        if self._waiting.get(node_id) is waiter:
            del self._waiting[node_id]

    def wake(self, node_id: UUID) -> None:
        waiter = self._waiting.get(node_id)
        if waiter is not None:
            waiter.wake()

    def close(self) -> None:
        """The program stops: everybody who waits is answered now."""
        self._closed = True
        for waiter in self._waiting.values():
            waiter.displaced = True
            waiter.wake()

    async def follow(self, look: Look) -> None:
        """Until cancelled: what hints did not bring, looking does."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self._waiting:
                continue
            try:
                for node_id in await look(list(self._waiting)):
                    self.wake(node_id)
            except Exception as error:  # noqa: BLE001 # the database is away; those who wait will be asked again
                reason = f"{type(error).__name__}: {error}"
                log.get_logger().warning("waiting agents are not looked after", reason=reason)

    def _hinted(self, subject: str) -> None:
        with contextlib.suppress(ValueError):
            self.wake(UUID(subject.removeprefix(SUBJECT)))


def subject_of(node_id: UUID) -> str:
    return f"{SUBJECT}{node_id}"
