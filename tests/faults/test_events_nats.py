"""NATS killed, emptied, its streams and consumers deleted: every event still arrives, once."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import nats
import pytest

from gpuaas.domains.outbox import handlers
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.infra.embedded.home import make_temporary_directory
from gpuaas.infra.embedded.nats import EmbeddedNats
from gpuaas.infra.events import HANDLERS
from gpuaas.infra.nats.streams import StreamKeeper
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.retention import Retention
from gpuaas.kit.parts import Parts
from gpuaas.processes.worker.timers import Timers
from tests.support.events import Stage, eventually
from tests.support.servers import DatabaseUrls, clone


@pytest.fixture
def own_nats() -> Iterator[EmbeddedNats]:
    """One that may be killed without anybody else noticing."""
    home = make_temporary_directory()
    server = EmbeddedNats(home, durable=False)
    server.start()
    yield server
    server.destroy()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
async def stage(template: DatabaseUrls, own_nats: EmbeddedNats) -> AsyncIterator[Stage]:
    async with clone(template) as urls:
        db = Database(urls.app, write_pool_size=8)
        await db.open()
        yield await Stage.on(urls, own_nats.url, db)
        await db.close()


@asynccontextmanager
async def timers_of(stage: Stage, parts: Parts) -> AsyncIterator[None]:
    """The outbox's own timers, run as the worker runs them."""
    parts.add(Retention(MemoryPolicy()))
    ours = [timer for timer in HANDLERS.timers() if timer.name.startswith("outbox.")]
    timers = Timers(stage.urls.app, ours, parts)
    running = asyncio.create_task(timers.run())
    try:
        yield
    finally:
        timers.stop()
        await asyncio.wait({running}, timeout=5)
        running.cancel()


def empty(server: EmbeddedNats) -> None:
    server.kill()
    shutil.rmtree(server.home / "data")
    server.start()


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_nats_killed_and_emptied_under_load_and_ten_thousand_events_arrive_once_each(
    stage: Stage, own_nats: EmbeddedNats
) -> None:
    stage.record("test.emptied")
    async with stage.relay(), stage.worker(slots=2) as parts, timers_of(stage, parts):
        ids = await stage.emit(4_000)

        async def published() -> bool:
            return await stage.unpublished() == 0

        await eventually(published, seconds=30)
        writing = asyncio.create_task(stage.emit(6_000))
        empty(own_nats)
        lost = 4_000 - len(await stage.effects("test.emptied"))
        assert lost > 0, "nothing was on the way: the fault was not hit"
        ids |= await writing
        await stage.wait_handled("test.emptied", ids, seconds=120)
        assert len(ids) == 10_000
        assert await stage.unpublished() == 0


async def test_a_deleted_stream_comes_back_without_a_restart(stage: Stage) -> None:
    stage.record("test.stream")
    async with stage.relay(), stage.worker() as parts:
        ids = await stage.emit(50)
        await stage.wait_handled("test.stream", ids, seconds=15)
        client = await nats.connect(stage.nats_url)
        await client.jetstream().delete_stream("PLATFORM")
        ids |= await stage.emit(50)
        await stage.wait_handled("test.stream", ids, seconds=30)
        await client.close()
        await handlers.events_audit(parts)


async def test_a_deleted_consumer_comes_back_where_the_books_say(stage: Stage) -> None:
    stage.record("test.consumer")
    async with stage.relay(), stage.worker() as parts:
        ids = await stage.emit(50)
        await stage.wait_handled("test.consumer", ids, seconds=15)
        client = await nats.connect(stage.nats_url)
        await client.jetstream().delete_consumer("PLATFORM", "test-consumer")
        ids |= await stage.emit(50)
        await stage.wait_handled("test.consumer", ids, seconds=30)
        await client.close()
        await handlers.events_audit(parts)


async def test_a_stream_somebody_changed_is_put_right(stage: Stage) -> None:
    async with stage.bus() as (_, keeper):
        await eventually_checked(keeper)
        client = await nats.connect(stage.nats_url)
        js = client.jetstream()
        await js.delete_stream("BILLING")
        await js.add_stream(name="BILLING", subjects=["billing.>"], storage="memory", max_age=60)
        keeper.look()

        async def right() -> bool:
            try:
                config = (await js.stream_info("BILLING")).config
            except nats.js.errors.NotFoundError:
                return False
            return config.storage == "file" and config.max_age == 7 * 24 * 3600 and config.duplicate_window == 120

        await eventually(right, seconds=15)
        await client.close()


async def eventually_checked(keeper: StreamKeeper) -> None:
    async def fine() -> bool:
        return not await keeper.check()

    await eventually(fine)
