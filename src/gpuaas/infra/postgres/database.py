"""Pools and transactions.

Two pools of the application's role: writes open a transaction and name their organisation in the same message; reads
run each statement as its own read-only transaction and keep the organisation on the connection, so that the second wall
costs no round trip while the organisation stays the same."""

import ssl as _ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from gpuaas.contracts.error_codes import Code
from gpuaas.infra.postgres.finish import finish
from gpuaas.infra.postgres.tx import Sight, Tx
from gpuaas.kit.errors import Unavailable

ACQUIRE_SECONDS = 5.0
CONNECT_SECONDS = 5.0
COMMAND_SECONDS = 30.0
SERVER_SETTINGS = {
    "application_name": "gpuaas",
    "timezone": "UTC",
    "statement_timeout": "20s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "15s",
    "jit": "off",
}
# The server is away or going away: the caller may try again. (Not: a statement that was refused.)
AWAY = (
    OSError, TimeoutError, _ssl.SSLError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError,
    asyncpg.OperatorInterventionError, asyncpg.InsufficientResourcesError, asyncpg.InternalClientError,
)
# The server asks for the whole transaction again.
AGAIN = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)


class _Connection(asyncpg.Connection):
    """Remembers what it may see."""

    __slots__ = ("sight",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sight: Sight | None = None


async def _tidy(connection: Any) -> None:
    """Given back in the middle of a transaction (a cancelled request): end it. Otherwise there is nothing to reset."""
    if connection.is_in_transaction():
        await connection.execute("ROLLBACK")


def away(error: BaseException) -> Unavailable:
    return Unavailable(
        Code.DEPENDENCY_UNAVAILABLE, "The database is away for a moment. Try again.",
        log=f"{type(error).__name__}: {error}", retry_after=1,
    )


class Database:
    """The application's door to PostgreSQL."""

    def __init__(self, url: str, *, read_pool_size: int = 4, write_pool_size: int = 8) -> None:
        self.url = url
        self._sizes = (read_pool_size, write_pool_size)
        self._reads: Any = None
        self._writes: Any = None

    async def open(self) -> None:
        reads, writes = self._sizes
        self._reads = await self._pool(reads, {"default_transaction_read_only": "on"})
        self._writes = await self._pool(writes, {})

    async def _pool(self, size: int, extra: dict[str, str]) -> Any:
        return await asyncpg.create_pool(
            self.url, min_size=1, max_size=size, connection_class=_Connection, reset=_tidy, timeout=CONNECT_SECONDS,
            command_timeout=COMMAND_SECONDS, statement_cache_size=1000, max_cacheable_statement_size=0,
            max_inactive_connection_lifetime=300, server_settings=SERVER_SETTINGS | extra,
        )

    @property
    def opened(self) -> bool:
        return self._reads is not None and self._writes is not None

    async def close(self) -> None:
        pools, self._reads, self._writes = (self._reads, self._writes), None, None
        for pool in pools:
            if pool is not None:
                await pool.close()

    @asynccontextmanager
    async def read(self, sight: Sight) -> AsyncIterator[Tx]:
        """Statements that only read, each in a transaction of its own."""
        connection = await _acquire(self._reads)
        try:
            await _look(connection, sight)
            yield Tx(connection, sight, "")
        finally:
            await self._reads.release(connection)

    @asynccontextmanager
    async def snapshot(self, sight: Sight) -> AsyncIterator[Tx]:
        """Reads that must agree with each other: one repeatable-read transaction."""
        connection = await _acquire(self._reads)
        try:
            await _look(connection, sight)
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                yield Tx(connection, sight, "")
        finally:
            await self._reads.release(connection)

    @asynccontextmanager
    async def unfinished(self, sight: Sight, actor_name: str) -> AsyncIterator[Tx]:
        """A transaction whose opener calls `finish` himself; it commits when the block ends well."""
        connection = await _acquire(self._writes)
        try:
            await connection.execute("BEGIN; " + sight.assignments("SET LOCAL"))
            tx = Tx(connection, sight, actor_name)
            try:
                yield tx
                await connection.execute("COMMIT")
            except BaseException:
                if not connection.is_closed() and connection.is_in_transaction():
                    await connection.execute("ROLLBACK")
                raise
        finally:
            await self._writes.release(connection)
        for hook in tx.hooks:
            hook()

    @asynccontextmanager
    async def transaction(self, sight: Sight, actor_name: str) -> AsyncIterator[Tx]:
        """A transaction outside of a request: for consumers and timers. Its events commit with it."""
        async with self.unfinished(sight, actor_name) as tx:
            yield tx
            await finish(tx)

    async def statement(self, sql: str, *args: Any) -> Any:
        """One statement in a transaction of its own, on tables without a tenant: rate marks and the like."""
        connection = await _acquire(self._writes)
        try:
            return await connection.fetchrow(sql, *args)
        finally:
            await self._writes.release(connection)


async def _acquire(pool: Any) -> Any:
    if pool is None:
        raise away(ConnectionError("not connected yet"))
    try:
        return await pool.acquire(timeout=ACQUIRE_SECONDS)
    except AWAY as error:
        raise away(error) from error


async def _look(connection: Any, sight: Sight) -> None:
    """Change what a read connection sees, only if it differs. A failed change leaves it seeing nothing."""
    inner = connection._con  # noqa: SLF001 # the pool's proxy hides the connection our attribute is on
    if inner.sight != sight:
        inner.sight = None
        await connection.execute(sight.assignments("SET"))
        inner.sight = sight
