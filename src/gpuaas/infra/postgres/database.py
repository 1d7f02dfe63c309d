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
from gpuaas.infra.postgres.pool import Connection, Pool
from gpuaas.infra.postgres.tx import Sight, Tx
from gpuaas.kit.errors import Conflict, Unavailable
from gpuaas.ports.hints import Hints

ACQUIRE_SECONDS = 5.0
COMMAND_SECONDS = 30.0
SERVER_SETTINGS = {
    "application_name": "gpuaas",
    "timezone": "UTC",
    "statement_timeout": "20s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "15s",
    "jit": "off",
}
READ_ONLY = {"default_transaction_read_only": "on"}
INSPECTION_RETRY_SECONDS = 10
# The server is away or going away: the caller may try again. (Not: a statement that was refused.)
AWAY = (
    OSError,
    TimeoutError,
    _ssl.SSLError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InternalClientError,
)
# The server asks for the whole transaction again.
AGAIN = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
# It was taken back, and the same may work in a moment: for whoever has nobody waiting for his answer.
TAKEN_BACK = (*AGAIN, asyncpg.LockNotAvailableError)


def away(error: BaseException) -> Unavailable:
    return Unavailable(
        Code.DEPENDENCY_UNAVAILABLE,
        "The database is away for a moment. Try again.",
        log=f"{type(error).__name__}: {error}",
        retry_after=1,
    )


# Locks go with a commit that does not wait for the disk; an empty message behind it in the log waits for both.
COMMIT_EARLY = "SET LOCAL synchronous_commit = off; COMMIT"
ON_DISK = "SELECT pg_logical_emit_message(true, 'on_disk', '')"


class Database:
    """The application's door to PostgreSQL."""

    def __init__(self, url: str, *, read_pool_size: int = 4, write_pool_size: int = 8) -> None:
        self.url = url
        self._sizes = (read_pool_size, write_pool_size)
        self._reads: Pool | None = None
        self._writes: Pool | None = None
        self._inspecting = False
        self.hints: Hints | None = None
        """Who carries what transactions hint at; without one, everybody looks at his own pace."""

    async def open(self) -> None:
        reads, writes = self._sizes
        self._reads = self._pool(reads, READ_ONLY)
        self._writes = self._pool(writes, {})
        await self._reads.open()
        await self._writes.open()

    def _pool(self, size: int, extra: dict[str, str]) -> Pool:
        return Pool(
            self.url,
            size,
            command_timeout=COMMAND_SECONDS,
            statement_cache_size=1000,
            max_cacheable_statement_size=0,
            server_settings=SERVER_SETTINGS | extra,
        )

    @property
    def opened(self) -> bool:
        return self._reads is not None and self._writes is not None

    @property
    def in_use(self) -> dict[str, int]:
        """How many connections of each pool are working."""
        return {"reads": self._reads.in_use if self._reads else 0, "writes": self._writes.in_use if self._writes else 0}

    @property
    def sizes(self) -> dict[str, int]:
        """How many connections each pool may have."""
        return {"reads": self._sizes[0], "writes": self._sizes[1]}

    async def close(self) -> None:
        pools, self._reads, self._writes = (self._reads, self._writes), None, None
        for pool in pools:
            if pool is not None:
                pool.close()

    @asynccontextmanager
    async def read(self, sight: Sight) -> AsyncIterator[Tx]:
        """Statements that only read, each in a transaction of its own."""
        async with _borrowed(self._reads, sight) as connection:
            await _look(connection, sight)
            yield Tx(connection, sight, "")

    @asynccontextmanager
    async def snapshot(self, sight: Sight) -> AsyncIterator[Tx]:
        """Reads that must agree with each other: one repeatable-read transaction."""
        async with _snapshot(self._reads, sight) as tx:
            yield tx

    @asynccontextmanager
    async def inspection(self, sight: Sight) -> AsyncIterator[Tx]:
        """A snapshot for a check that may take minutes: on a connection of its own, so that nobody waits for it; one at
        a time, so that there is at most one such connection."""
        if self._inspecting:
            raise Conflict(
                Code.REQUEST_IN_PROGRESS,
                "Another check of everything is under way here. Try again.",
                retry_after=INSPECTION_RETRY_SECONDS,
            )
        pool = self._pool(1, READ_ONLY) if self.opened else None
        self._inspecting = True
        try:
            async with _snapshot(pool, sight) as tx:
                yield tx
        finally:
            self._inspecting = False
            if pool is not None:
                pool.close()

    @asynccontextmanager
    async def unfinished(self, sight: Sight, actor_name: str) -> AsyncIterator[Tx]:
        """A transaction whose opener calls `finish` himself; it commits when the block ends well."""
        async with _borrowed(self._writes) as connection:
            await connection.execute("BEGIN; " + sight.assignments("SET LOCAL"))
            tx = Tx(connection, sight, actor_name)
            try:
                yield tx
                await connection.execute(COMMIT_EARLY if tx.early else "COMMIT")
                if tx.early:
                    await connection.execute(ON_DISK)
            except Exception:
                if not connection.is_closed() and connection.is_in_transaction():
                    await connection.execute("ROLLBACK")
                raise
        for hook in tx.hooks:
            hook()
        if self.hints is not None:
            for subject in tx.hints:
                self.hints.tell(subject)

    @asynccontextmanager
    async def transaction(self, sight: Sight, actor_name: str) -> AsyncIterator[Tx]:
        """A transaction outside of a request: for consumers and timers. Its events commit with it."""
        async with self.unfinished(sight, actor_name) as tx:
            yield tx
            await finish(tx)

    async def statement(self, sql: str, *args: Any) -> Any:
        """One statement in a transaction of its own, on tables without a tenant: rate marks and the like."""
        async with _borrowed(self._writes) as connection:
            return await connection.fetchrow(sql, *args)


@asynccontextmanager
async def _snapshot(pool: Pool | None, sight: Sight) -> AsyncIterator[Tx]:
    async with _borrowed(pool, sight) as connection:
        await _look(connection, sight)
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            yield Tx(connection, sight, "")


class _borrowed:  # noqa: N801 # reads as a verb; a class, because a generator costs three times as much
    """A connection, and its way back."""

    __slots__ = ("_connection", "_pool", "_sight")

    def __init__(self, pool: Pool | None, sight: Sight | None = None) -> None:
        if pool is None:
            raise away(ConnectionError("not connected yet"))
        self._pool = pool
        self._sight = sight

    async def __aenter__(self) -> Connection:
        try:
            self._connection = await self._pool.acquire(ACQUIRE_SECONDS, self._sight)
        except (*AWAY, asyncpg.PostgresError) as error:
            raise away(error) from error
        return self._connection

    async def __aexit__(self, *_: object) -> None:
        self._pool.release(self._connection)


async def _look(connection: Connection, sight: Sight) -> None:
    """Change what a read connection sees, only if it differs. A failed change is not remembered as done."""
    if connection.sight != sight:
        connection.sight = None
        await connection.execute(sight.assignments("SET"))
        connection.sight = sight
