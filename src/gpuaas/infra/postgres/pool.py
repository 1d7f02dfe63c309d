"""A pool of connections, as small as it can be: asyncpg's own wraps every connection in a proxy and every release in a
task, a fifth of what a small read costs here (docs/rfd/0008).

Always holds: at most `size` connections; whoever waits is served in order and never longer than he said; a connection
that is closed, or that was given back in the middle of a transaction, is not handed out again."""

import asyncio
from typing import Any

import asyncpg

from gpuaas.infra.postgres.tx import Sight

CONNECT_SECONDS = 5.0
MAX_AGE_SECONDS = 3600.0


class Connection(asyncpg.Connection):
    """Remembers what it may see, and since when it is open."""

    __slots__ = ("opened_at", "sight")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sight: Sight | None = None
        self.opened_at = asyncio.get_running_loop().time()


class Pool:
    def __init__(self, url: str, size: int, **options: Any) -> None:
        self._url = url
        self._options = options
        self._idle: list[Connection] = []
        self._places = asyncio.Semaphore(size)
        self._closed = False
        self.size = size
        self.in_use = 0

    async def open(self) -> None:
        """Prove that the server lets us in."""
        self.release(await self.acquire(CONNECT_SECONDS))

    def close(self) -> None:
        """Close what is idle at once, and what is in use as it comes back."""
        self._closed = True
        while self._idle:
            self._idle.pop().terminate()

    async def acquire(self, seconds: float, sight: Sight | None = None) -> Connection:
        """A connection, rather one that sees `sight` already. TimeoutError when none came free in time."""
        if self._places.locked():
            async with asyncio.timeout(seconds):
                await self._places.acquire()
        else:
            await self._places.acquire()
        try:
            connection = self._take(sight) or await self._connect()
        except BaseException:
            self._places.release()
            raise
        self.in_use += 1
        return connection

    def release(self, connection: Connection) -> None:
        self.in_use -= 1
        if self._closed or not self._usable(connection):
            connection.terminate()
        else:
            self._idle.append(connection)
        self._places.release()

    def _take(self, sight: Sight | None) -> Connection | None:
        idle = self._idle
        for index in range(len(idle) - 1, -1, -1):
            if idle[index].sight == sight and not idle[index].is_closed():
                return idle.pop(index)
        while idle:
            connection = idle.pop()
            if not connection.is_closed():
                return connection
        return None

    def _usable(self, connection: Connection) -> bool:
        young = connection.opened_at + MAX_AGE_SECONDS > asyncio.get_running_loop().time()
        return young and not connection.is_closed() and not connection.is_in_transaction()

    async def _connect(self) -> Connection:
        if self._closed:
            raise asyncpg.InterfaceError("the pool is closed")
        made: Connection = await asyncpg.connect(
            self._url, connection_class=Connection, timeout=CONNECT_SECONDS, **self._options
        )
        return made
