"""A relay and workers in the test's own process, on real servers, with reactions of the test's own. Every effect is a
row without any key, so that a second effect of one event is seen."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg

from gpuaas.contracts.events.base import Envelope
from gpuaas.contracts.events.platform import ProjectUpdated
from gpuaas.infra.events import HandlerRegistry, reaction
from gpuaas.infra.nats.bus import Bus
from gpuaas.infra.nats.publish import Publisher
from gpuaas.infra.nats.streams import StreamKeeper
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit.ids import new_id
from gpuaas.kit.parts import Parts
from gpuaas.processes.relay.relaying import Relay
from gpuaas.processes.worker.consumers import Consumers
from tests.support.servers import DatabaseUrls

EFFECTS = """
CREATE TABLE IF NOT EXISTS effects (consumer text NOT NULL, event_id uuid NOT NULL, note text NOT NULL DEFAULT '');
GRANT ALL ON effects TO gpuaas_app
"""
EVERYTHING = Sight(PLATFORM)


class Stage:
    """Emits events, and sees what became of them."""

    def __init__(self, urls: DatabaseUrls, nats_url: str, db: Database) -> None:
        self.urls = urls
        self.nats_url = nats_url
        self.db = db
        self.registry = HandlerRegistry()
        self.parts = Parts(db, self.registry)

    @classmethod
    async def on(cls, urls: DatabaseUrls, nats_url: str, db: Database) -> "Stage":
        connection = await asyncpg.connect(urls.superuser)
        await connection.execute(EFFECTS)
        await connection.close()
        return cls(urls, nats_url, db)

    def record(self, name: str) -> None:
        """A reaction to ProjectUpdated that leaves a row."""

        @reaction(name, to=ProjectUpdated, registry=self.registry)
        async def leave_a_row(tx: Tx, event: ProjectUpdated, envelope: Envelope) -> None:
            await tx.run("INSERT INTO effects (consumer, event_id) VALUES ($1, $2)", name, envelope.id)

    async def emit(self, count: int) -> set[UUID]:
        """That many events, 200 to a transaction."""
        ids: set[UUID] = set()
        while len(ids) < count:
            async with self.db.transaction(EVERYTHING, "system:test") as tx:
                for _ in range(min(200, count - len(ids))):
                    ids.add(tx.emit(ProjectUpdated(project_id=new_id())))
        return ids

    async def effects(self, consumer: str) -> Counter[UUID]:
        async with self.db.read(EVERYTHING) as tx:
            rows = await tx.rows(
                "SELECT event_id, count(*) AS n FROM effects WHERE consumer = $1 GROUP BY event_id", consumer
            )
        return Counter({row["event_id"]: row["n"] for row in rows})

    async def value(self, sql: str, *args: object) -> object:
        async with self.db.read(EVERYTHING) as tx:
            return await tx.value(sql, *args)

    async def unpublished(self) -> int:
        return int(str(await self.value("SELECT count(*) FROM outbox WHERE published_at IS NULL")))

    async def wait_handled(self, consumer: str, ids: set[UUID], *, seconds: float) -> None:
        """Until the consumer has had each of the events, then proves that it had each once."""

        async def arrived() -> bool:
            return set(await self.effects(consumer)) >= ids

        await eventually(arrived, seconds=seconds)
        twice = {event: n for event, n in (await self.effects(consumer)).items() if n != 1}
        assert not twice

    @asynccontextmanager
    async def bus(self) -> AsyncIterator[tuple[Bus, StreamKeeper]]:
        bus = Bus(self.nats_url, "test")
        keeper = StreamKeeper(bus)
        bus.start()
        keeping = asyncio.create_task(keeper.run())
        try:
            yield bus, keeper
        finally:
            keeping.cancel()
            await bus.stop()

    @asynccontextmanager
    async def relay(self, *, stop_cleanly: bool = True) -> AsyncIterator[Relay]:
        async with self.bus() as (bus, keeper):
            relay = Relay(self.urls.app, bus, keeper)
            running = asyncio.create_task(relay.run())
            try:
                yield relay
            finally:
                if stop_cleanly:
                    relay.stop()
                    await asyncio.wait({running}, timeout=5)
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    @asynccontextmanager
    async def worker(
        self, *, slots: int = 4, first_retry_seconds: float = 0.02, finish_seconds: float = 3
    ) -> AsyncIterator[Parts]:
        """All reactions of the registry; timers are run by the test, by hand."""
        async with self.bus() as (bus, _):
            self.parts = Parts(self.db, self.registry, bus, Publisher(bus))
            consumers = Consumers(
                self.db,
                bus,
                self.parts,
                self.registry.reactions(),
                slots=slots,
                first_retry_seconds=first_retry_seconds,
            )
            running = asyncio.create_task(consumers.run())
            try:
                yield self.parts
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                await consumers.finish(finish_seconds)


async def eventually(holds: Callable[[], Awaitable[bool]], *, seconds: float = 10.0) -> None:
    """Fails when it does not come to hold in time."""
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110 - a database has no event to wait for
            await asyncio.sleep(0.05)
