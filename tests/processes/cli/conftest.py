"""The live API, and people with terminals."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import asyncpg
import pytest

from gpuaas.domains.issuer.service import account_ensure
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Sight
from gpuaas.kit.ids import new_id
from tests.support.live import LiveApi, live_api
from tests.support.servers import DatabaseUrls
from tests.support.terminal import Person, Terminal

__all__ = ["live_api"]
Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
PASSWORD = "four-quiet-otters-skate"


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Nobody is logged in, no API is chosen."""
    return Terminal(tmp_path)


@pytest.fixture(scope="module")
def person(db: Database) -> Callable[..., Awaitable[Person]]:
    """Makes people who can log in."""

    async def make(name: str = "") -> Person:
        name = name or f"ada-{new_id().hex[-12:]}"
        async with db.transaction(Sight(), "test") as tx:
            await account_ensure(tx, email=f"{name}@example.com", password=PASSWORD, name=name.title())
        return Person(f"{name}@example.com", PASSWORD)

    return make


@pytest.fixture
async def newcomer(terminal: Terminal, live_api: LiveApi, person: Callable[..., Awaitable[Person]]) -> Terminal:
    """A terminal whose person has just logged in, with a session nobody else has."""
    logged_in = await terminal.log_in(await person(), "--url", live_api.url)
    assert logged_in.code == 0, logged_in.said
    return terminal


@pytest.fixture(scope="module")
async def home_of_ada(
    live_api: LiveApi, person: Callable[..., Awaitable[Person]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    home = tmp_path_factory.mktemp("ada")
    logged_in = await Terminal(home).log_in(await person(), "--url", live_api.url)
    assert logged_in.code == 0, logged_in.said
    return home


@pytest.fixture
async def ada(home_of_ada: Path, tmp_path: Path) -> Terminal:
    """A terminal whose person is logged in, with an organisation of this test's own chosen."""
    shutil.copytree(home_of_ada, tmp_path, dirs_exist_ok=True)
    terminal = Terminal(tmp_path)
    await terminal.good("orgs", "create", name := f"acme-{new_id().hex[-12:]}")
    await terminal.good("use", name)
    return terminal


@pytest.fixture
async def past_all_walls(database: DatabaseUrls) -> AsyncIterator[Superuser]:
    connection = await asyncpg.connect(database.superuser)
    yield connection
    await connection.close()


@pytest.fixture
async def admin(ada: Terminal, past_all_walls: Superuser) -> Terminal:
    """A person with a terminal, as platform admin."""
    email = (await ada.run("whoami", "-o", "json")).json["email"]
    await past_all_walls.execute("UPDATE users SET platform_roles = '{platform-admin}' WHERE email = $1", email)
    return ada
