"""A session of its own that holds named locks: whoever has the lock is the one who does the work.

Always holds: the locks end with the session, so a program that dies is replaced by another; work done through the
session's own connection cannot go on after the lock is lost."""

import asyncio
import hashlib
from typing import Any

import asyncpg

from gpuaas.infra.postgres.database import AWAY, COMMAND_SECONDS, SERVER_SETTINGS, away
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx

CONNECT_SECONDS = 5.0
CLOSE_SECONDS = 1.0
_TAKE = "SELECT pg_try_advisory_lock($1)"
_RELEASE = "SELECT pg_advisory_unlock($1)"
# A partitioned holder is found dead within about half a minute, and its locks become free.
_KEEPALIVE = {"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3"}


class LockSession:
    """Sees the platform. Statements through `tx` are each a transaction of their own."""

    def __init__(self, connection: Any, name: str) -> None:
        self._connection = connection
        self._turn = asyncio.Lock()
        self.tx = Tx(connection, Sight(PLATFORM), f"system:{name}")

    @classmethod
    async def open(cls, url: str, name: str) -> "LockSession":
        try:
            connection = await asyncpg.connect(
                url,
                timeout=CONNECT_SECONDS,
                command_timeout=COMMAND_SECONDS,
                server_settings=SERVER_SETTINGS | _KEEPALIVE | {"application_name": f"gpuaas {name}"},
            )
            await connection.execute(Sight(PLATFORM).assignments("SET"))
        except AWAY as error:
            raise away(error) from error
        return cls(connection, name)

    @property
    def alive(self) -> bool:
        return not self._connection.is_closed()

    async def take(self, name: str) -> bool:
        """Whether the lock is ours now. Asking for one we hold counts twice: ask once."""
        async with self._turn:
            return bool(await self._connection.fetchval(_TAKE, lock_key(name)))

    async def release(self, name: str) -> None:
        async with self._turn:
            await self._connection.execute(_RELEASE, lock_key(name))

    async def check(self) -> None:
        """Fails when the session, and so every lock, is gone."""
        async with self._turn:
            await self._connection.fetchval("SELECT 1", timeout=CONNECT_SECONDS)

    async def close(self) -> None:
        if self.alive:
            try:
                await self._connection.close(timeout=CLOSE_SECONDS)
            except AWAY:
                self._connection.terminate()


def lock_key(name: str) -> int:
    """The same number for the same name, everywhere."""
    return int.from_bytes(hashlib.sha256(b"gpuaas lock " + name.encode()).digest()[:8], "big", signed=True)
