"""Timers: one worker at a time, a deadline, longer waits after failures, and an end when the session is lost."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpuaas.contracts.events.base import Envelope
from gpuaas.contracts.events.platform import ProjectUpdated
from gpuaas.infra.events import MAX_ATTEMPTS, Timer, reaction
from gpuaas.infra.nats import pull
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit import log
from gpuaas.kit.parts import Parts
from gpuaas.processes.worker.timers import Timers
from tests.support.events import Stage, eventually
from tests.support.servers import DatabaseUrls


def timer(name: str, handler: Any, *, every: float = 0.05, deadline: float = 5.0) -> Timer:
    return Timer(name=name, every_seconds=every, deadline_seconds=deadline, handler=handler)


@asynccontextmanager
async def running(url: str, *timers: Timer) -> AsyncIterator[Timers]:
    found = Timers(url, timers, Parts())
    task = asyncio.create_task(found.run())
    try:
        yield found
    finally:
        found.stop()
        await asyncio.wait({task}, timeout=5)
        task.cancel()


def soon(holds: Callable[[], bool]) -> Any:
    async def check() -> bool:
        return holds()

    return check


async def test_a_timer_runs_on_one_of_two_workers_and_never_twice_at_once(database: DatabaseUrls) -> None:
    at_once, most, runs = 0, 0, 0

    async def work(parts: Parts) -> None:
        nonlocal at_once, most, runs
        at_once += 1
        most, runs = max(most, at_once), runs + 1
        await asyncio.sleep(0.01)
        at_once -= 1

    async with running(database.app, timer("test.single", work)), running(database.app, timer("test.single", work)):
        await eventually(soon(lambda: runs >= 10))
    assert most == 1


async def test_a_timer_that_fails_waits_longer_and_disturbs_no_other(database: DatabaseUrls) -> None:
    failed = ran = 0

    async def fail(parts: Parts) -> None:
        nonlocal failed
        failed += 1
        raise RuntimeError("always")

    async def work(parts: Parts) -> None:
        nonlocal ran
        ran += 1

    async with running(database.app, timer("test.fails", fail), timer("test.works", work)):
        await eventually(soon(lambda: ran >= 40), seconds=15)
    assert 2 <= failed <= 7


async def test_a_run_past_its_deadline_is_ended_and_the_next_one_begins(database: DatabaseUrls) -> None:
    begun = 0

    async def hang(parts: Parts) -> None:
        nonlocal begun
        begun += 1
        await asyncio.sleep(60)

    async with running(database.app, timer("test.hangs", hang, deadline=0.1)):
        await eventually(soon(lambda: begun >= 3))


async def test_each_run_has_a_correlation_id_of_its_own(database: DatabaseUrls) -> None:
    seen: list[str] = []

    async def work(parts: Parts) -> None:
        seen.append(log.correlation_id.get())

    async with running(database.app, timer("test.named", work)):
        await eventually(soon(lambda: len(seen) >= 3))
    assert len(set(seen)) == len(seen)
    assert all(one.startswith("timer-") for one in seen)


async def test_a_lost_session_ends_what_runs_and_the_timer_goes_on_with_a_new_one(
    database: DatabaseUrls, superuser: Any
) -> None:
    begun = cancelled = 0

    async def long(parts: Parts) -> None:
        nonlocal begun, cancelled
        begun += 1
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled += 1
            raise

    async with running(database.app, timer("test.lost_session", long, deadline=100)):
        await eventually(soon(lambda: begun == 1))
        await superuser.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gpuaas timers'"
        )
        await eventually(soon(lambda: begun == 2), seconds=15)
        assert cancelled == 1


async def test_an_event_that_kills_every_worker_becomes_a_dead_letter(
    database: DatabaseUrls, nats_url: str, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker vanishes in the middle of the reaction and records nothing; the attempt was counted before."""
    monkeypatch.setattr(pull, "ACK_WAIT_SECONDS", 1)
    stage = await Stage.on(database, nats_url, db)
    begun = asyncio.Event()
    tries = 0

    @reaction("test.killer", to=ProjectUpdated, registry=stage.registry)
    async def killer(tx: Tx, event: ProjectUpdated, envelope: Envelope) -> None:
        nonlocal tries
        tries += 1
        begun.set()
        await asyncio.sleep(60)

    event = next(iter(await stage.emit(1)))

    async def dead() -> bool:
        return await stage.value("SELECT count(*) FROM dead_letters WHERE event_id = $1", event) == 1

    async with stage.relay():
        for _ in range(MAX_ATTEMPTS + 1):
            begun.clear()
            async with stage.worker(finish_seconds=0):
                async with asyncio.timeout(15):
                    await begun.wait()
        async with stage.worker():
            await eventually(dead, seconds=15)
    assert tries == MAX_ATTEMPTS + 1, "the first attempt is free: nothing had gone wrong before it"
    reason = await stage.value("SELECT reason FROM dead_letters WHERE event_id = $1", event)
    assert str(reason).startswith("DidNotReturn")
