"""Real servers for tests: one PostgreSQL and one NATS per test process, a fresh database per test module, cloned from a
migrated template. The clock of tests stands in an odd time zone, so that nothing depends on UTC by luck."""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from gpuaas.infra.embedded.home import make_temporary_directory
from gpuaas.infra.embedded.nats import EmbeddedNats
from gpuaas.infra.embedded.postgres import EmbeddedPostgres
from gpuaas.infra.postgres import migrate
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.ids import new_id

ODD_ZONE = "Asia/Kathmandu"
TEMPLATE = "gpuaas_template"
os.environ["TZ"] = ODD_ZONE
time.tzset()


@dataclass(frozen=True)
class DatabaseUrls:
    """One database, as each role sees it."""

    app: str
    owner: str
    superuser: str

    def named(self, name: str) -> "DatabaseUrls":
        return DatabaseUrls(*(with_database(url, name) for url in (self.app, self.owner, self.superuser)))


def with_database(url: str, name: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"/{name}"))


@pytest.fixture(scope="session")
def server_home() -> Iterator[Path]:
    home = make_temporary_directory()
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(server_home: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(server_home, durable=False)
    yield server
    server.destroy()


@pytest.fixture(scope="session")
def nats_server(server_home: Path) -> Iterator[EmbeddedNats]:
    server = EmbeddedNats(server_home, durable=False)
    yield server
    server.destroy()


@pytest.fixture(scope="session")
def nats_url(nats_server: EmbeddedNats) -> str:
    return nats_server.start()


@pytest.fixture
def own_nats() -> Iterator[EmbeddedNats]:
    """A NATS to kill and to empty."""
    home = make_temporary_directory()
    server = EmbeddedNats(home, durable=False)
    server.start()
    yield server
    server.destroy()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def template(postgres: EmbeddedPostgres) -> DatabaseUrls:
    """The migrated database all others are copied from."""
    found = postgres.start()
    urls = DatabaseUrls(found.app, found.owner, found.superuser)
    asyncio.run(_make_template(urls))
    migrate.upgrade(urls.named(TEMPLATE).owner, app_role="gpuaas_app")
    return urls


async def _make_template(urls: DatabaseUrls) -> None:
    connection = await asyncpg.connect(urls.superuser)
    await connection.execute(f"CREATE DATABASE {TEMPLATE} OWNER gpuaas_owner")
    await connection.execute(f"ALTER DATABASE {TEMPLATE} SET timezone = '{ODD_ZONE}'")
    await connection.close()


@asynccontextmanager
async def clone(template: DatabaseUrls) -> AsyncIterator[DatabaseUrls]:
    """A database of one's own, gone afterwards."""
    name = f"t_{new_id().hex}"
    connection = await asyncpg.connect(template.superuser)
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} OWNER gpuaas_owner STRATEGY file_copy")
    try:
        yield template.named(name)
    finally:
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await connection.close()


@pytest.fixture(scope="module")
async def database(template: DatabaseUrls) -> AsyncIterator[DatabaseUrls]:
    async with clone(template) as urls:
        yield urls


@pytest.fixture(scope="module")
async def db(database: DatabaseUrls) -> AsyncIterator[Database]:
    """The application's own door to the module's database."""
    opened = Database(database.app)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture(scope="module")
async def superuser(database: DatabaseUrls) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """Past all walls: to look at what is really there, and to tamper."""
    connection = await asyncpg.connect(database.superuser)
    yield connection
    await connection.close()
