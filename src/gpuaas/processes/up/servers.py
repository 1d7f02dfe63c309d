"""Which PostgreSQL and NATS the product uses: those named by settings, or embedded ones.

From here on nobody can tell which: only URLs leave this module.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gpuaas.infra.embedded.nats import EmbeddedNats
from gpuaas.infra.embedded.postgres import EmbeddedPostgres
from gpuaas.processes.up.environment import Given
from gpuaas.processes.up.errors import UpError
from gpuaas.processes.up.report import Report
from gpuaas.processes.up.supervisor import Supervisor
from gpuaas.processes.up.together import together


@dataclass(frozen=True)
class ServerUrls:
    """How to reach the servers; without an owner's URL nobody here can migrate."""

    database: str
    database_owner: str | None
    nats: str


class Servers:
    """The servers of one run. Embedded ones start side by side and are kept by the supervisor."""

    def __init__(self, given: Given, data: Path) -> None:
        self._settings = given.settings
        self._postgres = None if "database_url" in given.chosen else EmbeddedPostgres(data)
        self._nats = None if "nats_url" in given.chosen else EmbeddedNats(data)

    async def start(self, supervisor: Supervisor, report: Report) -> ServerUrls:
        """Returns once both answer."""
        await together(
            *(
                self._start_one(server, supervisor, report)
                for server in (self._postgres, self._nats)
                if server is not None
            )
        )
        if self._postgres is not None:
            urls = self._postgres.urls
            database, owner = urls.app, urls.owner
        else:
            database, owner = self._settings.database_url, self._settings.database_owner_url
        nats = self._nats.url if self._nats is not None else self._settings.nats_url
        return ServerUrls(database, owner or None, nats)

    def release(self) -> None:
        """Let go of the embedded servers' directories once their processes have ended."""
        for server in (self._nats, self._postgres):
            if server is not None:
                server.stop()

    @staticmethod
    async def _start_one(server: EmbeddedPostgres | EmbeddedNats, supervisor: Supervisor, report: Report) -> None:
        async with report.step(server.name):
            await asyncio.to_thread(server.prepare)
            await supervisor.start(server)


async def migrate(urls: ServerUrls) -> str:
    """Bring the database to this version's schema; a remark about what was done."""
    # Loaded here: the driver is needed only now, while the servers start it would only delay them.
    from gpuaas.infra.postgres import migrate as migrations

    wanted = migrations.head()
    try:
        if urls.database_owner is not None:
            app_role = unquote(urlsplit(urls.database).username or "")
            changed = await asyncio.to_thread(migrations.upgrade, urls.database_owner, app_role=app_role)
            return f"migrated to {wanted}" if changed else f"at migration {wanted}"
        found = await migrations.current(urls.database)
    except Exception as error:
        raise UpError(f"the database cannot be migrated: {_one_line(error)}") from error
    if found != wanted:
        raise UpError(
            f"the database is at migration {found or 'none'}, this version needs {wanted}: "
            "set GPUAAS_DATABASE_OWNER_URL, or run `gpuaas migrate` as its owner"
        )
    return f"at migration {found}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
