"""PostgreSQL restarted and killed under the relay and the worker: they come back by themselves, nothing is lost."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from uuid import UUID

import pytest

from gpuaas.infra.embedded.home import make_temporary_directory
from gpuaas.infra.embedded.postgres import EmbeddedPostgres
from gpuaas.infra.postgres import migrate
from gpuaas.infra.postgres.database import AWAY, Database
from gpuaas.kit.errors import Unavailable
from tests.support.events import Stage
from tests.support.servers import DatabaseUrls


@pytest.fixture
def own_postgres() -> Iterator[EmbeddedPostgres]:
    """Durable: what it acknowledged must be there after a kill."""
    home = make_temporary_directory()
    server = EmbeddedPostgres(home, durable=True)
    server.start()
    yield server
    server.destroy()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
async def stage(own_postgres: EmbeddedPostgres, nats_url: str) -> AsyncIterator[Stage]:
    found = own_postgres.urls
    urls = DatabaseUrls(found.app, found.owner, found.superuser)
    await asyncio.to_thread(migrate.upgrade, urls.owner, app_role="gpuaas_app")
    db = Database(urls.app)
    await db.open()
    yield await Stage.on(urls, nats_url, db)
    await db.close()


async def emit_until(stage: Stage, enough: asyncio.Event) -> tuple[set[UUID], int]:
    """The events that were acknowledged, and how often the database went away in between."""
    ids: set[UUID] = set()
    interrupted = 0
    while not enough.is_set():
        try:
            ids |= await stage.emit(5)
            await asyncio.sleep(0.005)
        except (*AWAY, Unavailable):
            interrupted += 1
            await asyncio.sleep(0.05)
    return ids, interrupted


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_postgres_goes_away_under_load_and_every_acknowledged_event_arrives_once(
    stage: Stage, own_postgres: EmbeddedPostgres, how: str
) -> None:
    stage.record(f"test.postgres_{how}")
    async with stage.relay(), stage.worker():
        enough = asyncio.Event()
        writing = asyncio.create_task(emit_until(stage, enough))
        for _ in range(3):
            await asyncio.sleep(0.7)
            await asyncio.to_thread(getattr(own_postgres, how))
            await asyncio.sleep(0.3)
            own_postgres.start()
        await asyncio.sleep(0.5)
        enough.set()
        ids, interrupted = await writing
        assert interrupted >= 3
        assert len(ids) > 200
        await stage.wait_handled(f"test.postgres_{how}", ids, seconds=60)
        assert await stage.unpublished() == 0
