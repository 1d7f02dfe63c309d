"""Whether the database can be used: it answers, and it is at the migration this program was written for."""

import asyncio

import asyncpg

from gpuaas.infra.postgres import migrate
from gpuaas.infra.postgres.database import AWAY, Database
from gpuaas.infra.postgres.tx import Sight
from gpuaas.kit import log
from gpuaas.kit.errors import Unavailable

_VERSION = "SELECT version_num FROM alembic_version"


PATIENCE_SECONDS = 0.5


class DatabaseHealth:
    """Two checks for a probe, each '' when all is well."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._head = migrate.head()

    async def open(self) -> None:
        """Open the pools as soon as the database lets us in: a program may start before it."""
        while True:
            try:
                await self._db.open()
            except (*AWAY, asyncpg.PostgresError) as error:
                log.get_logger().warning("waiting for the database", reason=f"{type(error).__name__}: {error}")
                await self._db.close()
                await asyncio.sleep(PATIENCE_SECONDS)
            else:
                return

    async def reachable(self) -> str:
        if not self._db.opened:
            return "not connected to the database yet"
        try:
            async with self._db.read(Sight()) as tx:
                await tx.value("SELECT 1")
        except (*AWAY, Unavailable) as error:
            return f"the database does not answer ({type(error).__name__})"
        return ""

    async def migrated(self) -> str:
        if not self._db.opened:
            return "unknown before the database was reached"
        try:
            async with self._db.read(Sight()) as tx:
                found = str(await tx.value(_VERSION) or "none")
        except (*AWAY, Unavailable):
            return "unknown while the database is away"
        if found == self._head:
            return ""
        return f"the database is at migration {found}, this program is written for {self._head}: run gpuaas migrate"
