"""Who watches an allocation now: woken when something happened to it. Hints may be lost, so whoever watches also looks
by itself."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.kit.errors import Unavailable
from gpuaas.ports.hints import Hints

SUBJECT = "hint.allocation."
MAX_WATCHERS = 200
MAX_EACH = 20
"""By one person or service account: nobody takes all of it."""


def subject_of(allocation_id: UUID) -> str:
    return f"{SUBJECT}{allocation_id}"


class Watchers:
    """Of one process."""

    def __init__(self, hints: Hints) -> None:
        self._events: dict[str, set[asyncio.Event]] = {}
        self._by_whom: Counter[UUID | None] = Counter()
        hints.listen(SUBJECT + "*", self._hinted)

    def _hinted(self, subject: str) -> None:
        for event in self._events.get(subject, ()):
            event.set()

    @asynccontextmanager
    async def watch(self, allocation_id: UUID, by: UUID | None) -> AsyncIterator[asyncio.Event]:
        if self._by_whom[by] >= MAX_EACH or self._by_whom.total() >= MAX_WATCHERS:
            raise Unavailable(Code.OVERLOADED, "As many watch here as can. Try again, or read it again and again.")
        subject, event = subject_of(allocation_id), asyncio.Event()
        self._by_whom[by] += 1
        self._events.setdefault(subject, set()).add(event)
        try:
            yield event
        finally:
            self._by_whom[by] -= 1
            if not self._by_whom[by]:
                del self._by_whom[by]
            self._events[subject].discard(event)
            if not self._events[subject]:
                del self._events[subject]
