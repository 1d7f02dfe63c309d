"""Events from the outbox to their reactions: each arrives, once, whoever delivers it and however often."""

import asyncio
from uuid import UUID

import msgspec
import nats
import pytest

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.base import Envelope
from gpuaas.contracts.events.platform import ProjectUpdated
from gpuaas.domains.outbox import handlers, service
from gpuaas.infra.events import MAX_ATTEMPTS, reaction
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Sight, Tx
from gpuaas.kit import log, trace
from gpuaas.kit.errors import Unavailable
from gpuaas.kit.ids import DeadLetterId, new_id
from gpuaas.processes.worker import consumers
from tests.support.events import EVERYTHING, Stage, eventually
from tests.support.servers import DatabaseUrls


@pytest.fixture
async def stage(database: DatabaseUrls, nats_url: str, db: Database) -> Stage:
    return await Stage.on(database, nats_url, db)


async def test_events_arrive_once_and_are_marked(stage: Stage) -> None:
    stage.record("test.once")
    ids = await stage.emit(700)
    async with stage.relay(), stage.worker():
        await stage.wait_handled("test.once", ids, seconds=20)
        assert await stage.unpublished() == 0


async def test_a_consumer_waits_for_the_books_it_begins_from(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """NATS forgot it while the database is away: neither ends the worker."""
    stage.record("test.patient")
    asked: list[str] = []

    async def away_at_first(db: Database, consumer: str) -> None:
        asked.append(consumer)
        if len(asked) < 3:
            raise Unavailable(Code.DEPENDENCY_UNAVAILABLE, "The database is away for a moment.")

    monkeypatch.setattr(consumers, "start_time", away_at_first)
    ids = await stage.emit(10)
    async with stage.relay(), stage.worker():
        await stage.wait_handled("test.patient", ids, seconds=20)
    assert len(asked) == 3


async def test_two_workers_and_two_relays_have_one_effect(stage: Stage) -> None:
    stage.record("test.two_workers")
    async with stage.relay(), stage.relay(), stage.worker(), stage.worker():
        ids = await stage.emit(300)
        await stage.wait_handled("test.two_workers", ids, seconds=20)


async def test_a_standby_relay_takes_over_from_one_that_dies(stage: Stage) -> None:
    stage.record("test.takeover")
    async with stage.worker():
        async with stage.relay(stop_cleanly=False):
            first = await stage.emit(50)
            await stage.wait_handled("test.takeover", first, seconds=10)
            standby = stage.relay()
            await standby.__aenter__()
        try:
            second = await stage.emit(50)
            await stage.wait_handled("test.takeover", first | second, seconds=15)
        finally:
            await standby.__aexit__(None, None, None)


async def test_an_event_delivered_three_times_and_shuffled_has_one_effect(stage: Stage) -> None:
    stage.record("test.thrice")
    async with stage.relay(), stage.worker():
        ids = await stage.emit(100)
        await stage.wait_handled("test.thrice", ids, seconds=15)
        client = await nats.connect(stage.nats_url)
        async with stage.db.read(EVERYTHING) as tx:
            rows = await tx.rows("SELECT id, org_id FROM outbox WHERE id = ANY($1) ORDER BY random()", list(ids))
        for turn in range(3):
            for row in rows:
                body = msgspec.json.encode({"id": row["id"], "org_id": row["org_id"]})
                await client.jetstream().publish(
                    "platform.project.updated", body, headers={"Nats-Msg-Id": f"{row['id']}/{turn}"}
                )
        last = await stage.emit(1)
        await stage.wait_handled("test.thrice", ids | last, seconds=15)
        await client.close()


async def test_what_is_not_in_the_books_is_not_believed(stage: Stage) -> None:
    """NATS is a hint: an event nobody emitted, one of another organisation, and bytes that are no event."""
    stage.record("test.forged")
    async with stage.relay(), stage.worker():
        client = await nats.connect(stage.nats_url)
        real = next(iter(await stage.emit(1)))
        await stage.wait_handled("test.forged", {real}, seconds=10)
        for body in (
            msgspec.json.encode({"id": new_id(), "org_id": None}),
            msgspec.json.encode({"id": new_id(), "org_id": new_id()}),
            b"not an event",
            b"{}",
            b"[1]",
        ):
            await client.jetstream().publish("platform.project.updated", body)
        ids = await stage.emit(1)
        await stage.wait_handled("test.forged", ids, seconds=10)
        assert set(await stage.effects("test.forged")) >= ids
        forged = await stage.value(
            "SELECT count(*) FROM effects e WHERE NOT EXISTS (SELECT FROM outbox o WHERE o.id = e.event_id)"
        )
        assert forged == 0
        await client.close()


async def test_a_reaction_sees_the_organisation_correlation_and_trace_of_its_cause(stage: Stage) -> None:
    seen: list[tuple[UUID | str | None, str, str]] = []

    @reaction("test.context", to=ProjectUpdated, registry=stage.registry)
    async def look(tx: Tx, event: ProjectUpdated, envelope: Envelope) -> None:
        seen.append((tx.sight.org, log.correlation_id.get(), trace.traceparent()))

    org, parent = new_id(), "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    log.correlation_id.set("cause-1")
    trace.enter(parent)
    async with stage.db.transaction(Sight(org), "system:test") as tx:
        tx.emit(ProjectUpdated(project_id=new_id()))
    log.correlation_id.set("")
    trace.enter()
    async with stage.relay(), stage.worker():

        async def arrived() -> bool:
            return (org, "cause-1", parent) in seen

        await eventually(arrived)


async def test_a_reaction_that_fails_is_tried_again_and_leaves_nothing_of_its_failures(stage: Stage) -> None:
    tries: list[UUID] = []
    ids = await stage.emit(3)

    @reaction("test.flaky", to=ProjectUpdated, registry=stage.registry)
    async def flaky(tx: Tx, event: ProjectUpdated, envelope: Envelope) -> None:
        await tx.run("INSERT INTO effects (consumer, event_id) VALUES ('test.flaky', $1)", envelope.id)
        tries.append(envelope.id)
        if envelope.id in ids and tries.count(envelope.id) < 3:
            raise RuntimeError("not yet")

    async with stage.relay(), stage.worker():
        await stage.wait_handled("test.flaky", ids, seconds=15)
        assert all(tries.count(event) == 3 for event in ids)
        assert await stage.value("SELECT count(*) FROM delivery_attempts WHERE consumer = 'test.flaky'") == 0


async def test_poison_becomes_a_dead_letter_and_is_handled_once_when_replayed(stage: Stage) -> None:
    poison = new_id()
    broken = True
    tries = 0

    @reaction("test.poison", to=ProjectUpdated, registry=stage.registry)
    async def poisoned(tx: Tx, event: ProjectUpdated, envelope: Envelope) -> None:
        nonlocal tries
        await tx.run("INSERT INTO effects (consumer, event_id) VALUES ('test.poison', $1)", envelope.id)
        tries += envelope.id == poison
        if broken and envelope.id == poison:
            raise RuntimeError("cannot, because Bearer abcdefghijkl is not known")

    async with stage.relay(), stage.worker() as parts:
        async with stage.db.transaction(EVERYTHING, "system:test") as tx:
            poison = tx.emit(ProjectUpdated(project_id=new_id()))

        async def dead() -> bool:
            return await stage.value("SELECT state FROM dead_letters WHERE event_id = $1", poison) == "open"

        await eventually(dead, seconds=30)
        assert tries == MAX_ATTEMPTS
        async with stage.db.read(EVERYTHING) as tx:
            letter = await tx.row("SELECT * FROM dead_letters WHERE event_id = $1", poison)
            hint = await tx.row(
                "SELECT * FROM outbox WHERE name = 'dead_letter.opened' AND subject_id = $1",
                letter["id"] if letter else None,
            )
        assert letter is not None
        assert letter["attempts"] == MAX_ATTEMPTS
        assert "Bearer abc" not in letter["reason"]
        assert hint is not None
        assert hint["stream"] == "DLQ"

        await _ask_for_replay(stage, letter["id"])
        await handlers.dead_letters_replay(parts)
        async with stage.db.read(EVERYTHING) as tx:
            again = await tx.row("SELECT state, attempts FROM dead_letters WHERE event_id = $1", poison)
        assert again is not None
        assert dict(again) == {"state": "open", "attempts": MAX_ATTEMPTS + 1}

        broken = False
        await _ask_for_replay(stage, letter["id"])
        await asyncio.gather(*(handlers.dead_letters_replay(parts) for _ in range(3)))
        assert await stage.value("SELECT state FROM dead_letters WHERE event_id = $1", poison) == "resolved"
        assert (await stage.effects("test.poison"))[poison] == 1


async def _ask_for_replay(stage: Stage, letter: UUID) -> None:
    async with stage.db.transaction(EVERYTHING, "system:test") as tx:
        await service.dead_letter_replay(tx, DeadLetterId(letter))
