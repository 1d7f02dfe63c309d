"""Old events and late ones: what waited while nobody relayed, and what committed behind the relay's back."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from gpuaas.infra.postgres.database import Database
from gpuaas.kit import clock
from gpuaas.kit.ids import floor_id, new_id
from gpuaas.processes.relay import relaying
from tests.support.events import Stage, eventually
from tests.support.servers import DatabaseUrls, clone

INSERT = """
INSERT INTO outbox (id, stream, name, version, actor, correlation_id, traceparent, payload)
VALUES ($1, 'PLATFORM', 'project.updated', 1, 'system:test', '', '', jsonb_build_object('project_id', $1::uuid))
"""


@pytest.fixture
async def stage(template: DatabaseUrls, nats_url: str) -> AsyncIterator[Stage]:
    async with clone(template) as urls:
        db = Database(urls.app)
        await db.open()
        yield await Stage.on(urls, nats_url, db)
        await db.close()


@pytest.fixture
async def beyond(stage: Stage) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(stage.urls.superuser)
    yield connection
    await connection.close()


def aged(age: timedelta) -> UUID:
    return UUID(int=floor_id(clock.now() - age).int | (new_id().int & 0xFFFFFFFF))


async def test_what_waited_for_days_is_published_at_once(stage: Stage, beyond: Any) -> None:
    for n in range(1_100):
        await beyond.execute(INSERT, aged(timedelta(days=2, seconds=n)))
    await stage.emit(10)
    async with stage.relay():
        await eventually(lambda: none_left(stage))


async def test_what_commits_late_with_an_old_id_is_published_too(
    stage: Stage, beyond: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relaying, "LOOK_AT_ALL_SECONDS", 0.5)
    async with stage.relay():
        await stage.emit(5)
        await eventually(lambda: none_left(stage))
        for age in (timedelta(minutes=1), timedelta(minutes=14), timedelta(hours=3)):
            await beyond.execute(INSERT, aged(age))
        await eventually(lambda: none_left(stage), seconds=5)


async def none_left(stage: Stage) -> bool:
    return await stage.unpublished() == 0
