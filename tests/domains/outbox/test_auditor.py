"""The auditor: what NATS lost is sent again, what only waits is not; and what may be thrown away."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import nats
import pytest

from gpuaas.domains.outbox import handlers, horizon
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.infra.nats.publish import Publisher
from gpuaas.infra.postgres import retention
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import NIL
from gpuaas.kit import clock
from gpuaas.kit.ids import floor_id, new_id
from gpuaas.kit.parts import Parts
from tests.support.events import Stage
from tests.support.servers import DatabaseUrls, clone

LOST = """
INSERT INTO outbox (id, stream, name, version, actor, correlation_id, traceparent, payload, created_at, published_at)
VALUES ($1, 'PLATFORM', 'project.updated', 1, 'system:test', '', '', $4, $2, $3)
"""


@pytest.fixture
async def stage(template: DatabaseUrls, nats_url: str) -> AsyncIterator[Stage]:
    client = await nats.connect(nats_url)
    for stream in await client.jetstream().streams_info():
        await client.jetstream().purge_stream(str(stream.config.name))
    await client.close()
    async with clone(template) as urls:
        db = Database(urls.app)
        await db.open()
        yield await Stage.on(urls, nats_url, db)
        await db.close()


@pytest.fixture
async def beyond(stage: Stage) -> AsyncIterator[Any]:
    """Past all walls."""
    connection = await asyncpg.connect(stage.urls.superuser)
    yield connection
    await connection.close()


async def born(beyond: Any, at: datetime, *, published: bool = True) -> UUID:
    """An event the books say was published, which NATS does not have."""
    event = UUID(int=floor_id(at).int | (new_id().int & 0xFFFFFFFF))
    await beyond.execute(LOST, event, at, at if published else None, f'{{"project_id": "{new_id()}"}}')
    return event


async def test_the_books_of_a_reaction_that_is_gone_are_closed(stage: Stage, beyond: Any) -> None:
    """Nobody moves them on: they would raise an alarm for ever."""
    stage.record("test.stays")
    at = clock.now() - timedelta(minutes=20)
    await born(beyond, at)
    behind = floor_id(at - timedelta(minutes=1))
    for consumer in ("test.gone", "test.stays"):
        await beyond.execute("INSERT INTO consumer_progress VALUES ($1, $2, $2)", consumer, behind)
    late = "SELECT split_part(subject, ' ', 1) AS consumer FROM invariant_11_inbox_complete ORDER BY 1"
    assert [row["consumer"] for row in await beyond.fetch(late)] == ["test.gone", "test.stays"]
    async with stage.relay(), stage.worker() as parts:
        await handlers.events_settle(parts)
    assert "test.gone" not in [row["consumer"] for row in await beyond.fetch(late)]
    kept = await beyond.fetch("SELECT consumer FROM consumer_progress")
    assert [row["consumer"] for row in kept] == ["test.stays"]


async def test_what_was_acknowledged_and_lost_is_sent_again_and_the_books_move_on(stage: Stage, beyond: Any) -> None:
    stage.record("test.lost")
    lost = {await born(beyond, clock.now() - timedelta(minutes=20 + n)) for n in range(5)}
    recent = await born(beyond, clock.now() - timedelta(minutes=1))
    young = await born(beyond, clock.now() - timedelta(seconds=5))
    async with stage.relay(), stage.worker() as parts:
        seen = await stage.emit(1)
        await stage.wait_handled("test.lost", seen, seconds=15)
        await handlers.events_audit(parts)
        await stage.wait_handled("test.lost", lost | {recent}, seconds=15)
        assert young not in await stage.effects("test.lost"), "nobody asks yet"
        await handlers.events_audit(parts)
        await handlers.events_settle(parts)
    row = await beyond.fetchrow("SELECT * FROM consumer_progress WHERE consumer = 'test.lost'")
    assert row["checked_through"] > recent
    assert max(lost) < row["complete_through"] < recent


async def test_a_late_commit_behind_the_first_look_is_found_by_the_second(stage: Stage, beyond: Any) -> None:
    stage.record("test.late")
    async with stage.relay(), stage.worker() as parts:
        await stage.wait_handled("test.late", await stage.emit(1), seconds=15)
        await handlers.events_audit(parts)
        late = await born(beyond, clock.now() - timedelta(minutes=16))
        await handlers.events_audit(parts)
        assert late not in await stage.effects("test.late")
        await handlers.events_settle(parts)
        await stage.wait_handled("test.late", {late}, seconds=15)


async def test_what_waits_in_the_stream_is_not_sent_again(
    stage: Stage, beyond: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(horizon, "SKEW", timedelta(0))
    stage.record("test.waits")
    async with stage.relay(), stage.worker():
        await stage.wait_handled("test.waits", await stage.emit(1), seconds=15)
    await stage.emit(20)
    async with stage.relay():
        while await stage.unpublished():
            pass
    await beyond.execute("UPDATE consumer_progress SET checked_through = $1", NIL)
    async with stage.bus() as (bus, _):
        await bus.wait_connected(5)
        parts = Parts(stage.db, stage.registry, bus, Publisher(bus))
        before = floor_id(clock.now() + timedelta(seconds=1))
        await handlers._audit(parts, stage.registry.reactions()[0], before, final=False)
    client = await nats.connect(stage.nats_url)
    assert (await client.jetstream().stream_info("PLATFORM")).state.messages == 21
    await client.close()


async def test_given_up_events_are_not_sent_again_and_do_not_stop_the_books(stage: Stage, beyond: Any) -> None:
    stage.record("test.given_up")
    dead = await born(beyond, clock.now() - timedelta(minutes=30))
    await beyond.execute(
        "INSERT INTO dead_letters (id, consumer, event_id, event_name, correlation_id, reason, attempts, state) "
        "VALUES ($1, 'test.given_up', $2, 'project.updated', '', 'x', 8, 'discarded')",
        new_id(),
        dead,
    )
    async with stage.relay(), stage.worker() as parts:
        await stage.wait_handled("test.given_up", await stage.emit(1), seconds=15)
        await handlers.events_audit(parts)
        await handlers.events_settle(parts)
    assert dead not in await stage.effects("test.given_up")
    assert await beyond.fetchval("SELECT complete_through > $1 FROM consumer_progress", dead)


async def test_months_of_events_are_dropped_only_when_nobody_needs_them(stage: Stage, beyond: Any) -> None:
    stage.record("test.months")
    old = clock.now() - timedelta(days=100)
    await beyond.execute("SELECT ensure_partitions('outbox', $1, 0), ensure_partitions('inbox', $1, 0)", old)
    event = await born(beyond, old, published=False)
    parts = Parts(stage.db, stage.registry, retention.Retention(MemoryPolicy()))

    async def kept_after_pruning() -> bool:
        await handlers.events_prune(parts)
        return bool(await beyond.fetchval("SELECT count(*) FROM outbox WHERE id = $1", event))

    through = (
        "INSERT INTO consumer_progress VALUES ('test.months', $1, $1) ON CONFLICT (consumer) DO UPDATE "
        "SET complete_through = excluded.complete_through"
    )
    await beyond.execute(through, floor_id(clock.now()))
    assert await kept_after_pruning(), "it was never published"
    await beyond.execute("UPDATE outbox SET published_at = now()")
    await beyond.execute(through, NIL)
    assert await kept_after_pruning(), "a consumer has not been found complete"
    await beyond.execute(through, floor_id(clock.now()))
    await beyond.execute(
        "INSERT INTO dead_letters (id, consumer, event_id, event_name, correlation_id, reason, attempts, state) "
        "VALUES ($1, 'test.months', $2, 'project.updated', '', 'x', 8, 'open')",
        new_id(),
        event,
    )
    assert await kept_after_pruning(), "an operator may still replay it"
    await beyond.execute("UPDATE dead_letters SET state = 'discarded'")
    assert not await kept_after_pruning()


async def test_old_answers_and_rate_marks_are_forgotten_and_young_ones_kept(stage: Stage, beyond: Any) -> None:
    for days, key in ((29, "young"), (31, "old")):
        await beyond.execute(
            "INSERT INTO idempotency_keys (actor_id, key, operation, request_hash, created_at) "
            "VALUES ($1, $2, 'x', '\\x00', now() - make_interval(days => $3))",
            new_id(),
            key,
            days,
        )
    for hours, subject in ((0, "young"), (2, "old")):
        await beyond.execute(
            "INSERT INTO rate_marks VALUES ('admin', $1, now() - make_interval(hours => $2))", subject, hours
        )
    await handlers.answers_prune(Parts(stage.db, retention.Retention(MemoryPolicy())))
    assert [row["key"] for row in await beyond.fetch("SELECT key FROM idempotency_keys")] == ["young"]
    assert [row["subject"] for row in await beyond.fetch("SELECT subject FROM rate_marks")] == ["young"]


async def test_there_are_always_months_ahead(stage: Stage, beyond: Any) -> None:
    await beyond.execute(
        "DO $$ DECLARE p text; BEGIN FOR p IN SELECT inhrelid::regclass::text FROM pg_inherits "
        "WHERE inhparent = 'inbox'::regclass LOOP EXECUTE 'DROP TABLE ' || p; END LOOP; END $$"
    )
    await handlers.months_make(Parts(stage.db))
    count = await beyond.fetchval("SELECT count(*) FROM pg_inherits WHERE inhparent = 'inbox'::regclass")
    assert count == retention.MONTHS_AHEAD + 1
