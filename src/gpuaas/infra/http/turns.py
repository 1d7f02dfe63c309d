"""One after the other: requests of this process that name the same thing.

For changes that use the network before their transaction: a client that repeats itself too early waits for its first
request and hears that one's answer, instead of spending a login's code, or a guess at a password, a second time."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class Turns:
    def __init__(self) -> None:
        self._locks: dict[Hashable, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def take(self, name: Hashable) -> AsyncIterator[None]:
        lock, asking = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = (lock, asking + 1)
        try:
            async with lock:
                yield
        finally:
            lock, asking = self._locks.pop(name)
            if asking > 1:
                self._locks[name] = (lock, asking - 1)
