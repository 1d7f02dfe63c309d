"""`gpuaas worker` as a process: every timer runs, reactions run once, another replaces it, it stops when told."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from gpuaas.contracts.events.platform import UserDisabled
from gpuaas.domains import load_handlers
from gpuaas.infra.embedded.nats import EmbeddedNats
from gpuaas.infra.events import HANDLERS
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.ids import new_id
from gpuaas.processes.worker.roles import Role, mine
from tests.support.events import EVERYTHING, Stage, eventually
from tests.support.programs import ProgramProcess
from tests.support.servers import DatabaseUrls, clone

Start = Callable[..., ProgramProcess]
RUNS = re.compile(rb'gpuaas_timer_runs_total\{outcome="(\w+)",timer="([\w.]+)"\} (\d+)')


@pytest.fixture
async def stage(template: DatabaseUrls, own_nats: EmbeddedNats) -> AsyncIterator[Stage]:
    async with clone(template) as urls:
        db = Database(urls.app)
        await db.open()
        yield await Stage.on(urls, own_nats.url, db)
        await db.close()


@pytest.fixture
def start(stage: Stage, tmp_path: Path) -> Iterator[Start]:
    made: list[ProgramProcess] = []

    def start_one(name: str, *arguments: str) -> ProgramProcess:
        log = tmp_path / f"{name}{len(made)}.log"
        made.append(ProgramProcess(name, stage.urls.app, stage.nats_url, log, *arguments))
        return made[-1].start()

    yield start_one
    for program in made:
        program.kill()


def runs(worker: ProgramProcess) -> dict[str, set[str]]:
    """Which timers have ended how."""
    found: dict[str, set[str]] = {}
    for outcome, timer, _ in RUNS.findall(worker.ask("/metrics")[1]):
        found.setdefault(outcome.decode(), set()).add(timer.decode())
    return found


async def test_every_timer_runs_with_the_parts_the_worker_has(start: Start) -> None:
    load_handlers()
    declared = {timer.name for timer in HANDLERS.timers()}
    worker = start("worker")
    await worker.wait_ready()

    async def all_ran() -> bool:
        found = await asyncio.to_thread(runs, worker)
        assert not found.get("failed"), worker.log[-3000:]
        return found.get("done", set()) >= declared

    await eventually(all_ran, seconds=20)
    assert f"gpuaas_timers_held {float(len(declared))}".encode() in worker.ask("/metrics")[1]


async def test_workers_by_role_do_all_the_work_between_them_and_none_of_it_twice(start: Start) -> None:
    load_handlers()
    roles = [role for role in Role if role is not Role.ALL]
    timers = [one.name for role in roles for one in mine(role, HANDLERS.timers())]
    assert sorted(timers) == sorted(one.name for one in HANDLERS.timers())
    reactions = [one.name for role in roles for one in mine(role, HANDLERS.reactions())]
    assert sorted(reactions) == sorted(one.name for one in HANDLERS.reactions())
    workers = {role: start("worker", "--role", role.value) for role in roles}
    for role, worker in workers.items():
        await worker.wait_ready()
        wanted = {timer.name for timer in mine(role, HANDLERS.timers())}

        async def has_run(worker: ProgramProcess = worker, wanted: set[str] = wanted) -> bool:
            return (await asyncio.to_thread(runs, worker)).get("done", set()) == wanted

        await eventually(has_run, seconds=20)


async def test_a_workers_timers_go_to_another_when_it_is_killed(start: Start) -> None:
    first = start("worker")
    await first.wait_ready()
    await eventually(lambda: _holds_some(first))
    second = start("worker")
    await second.wait_ready()
    await asyncio.sleep(1)
    assert not await _holds_some(second), "a timer runs on two workers"
    first.kill()
    await eventually(lambda: _holds_some(second), seconds=10)


async def test_real_reactions_hear_real_events(stage: Stage, start: Start) -> None:
    start("relay")
    worker = start("worker")
    await worker.wait_ready()
    async with stage.db.transaction(EVERYTHING, "system:test") as tx:
        event = tx.emit(UserDisabled(user_id=new_id(), issuer="https://elsewhere.example", subject="x"))
    hearing = [reaction.name for reaction in HANDLERS.reactions() if UserDisabled in reaction.events]
    assert hearing

    async def heard() -> bool:
        return await stage.value("SELECT count(*) FROM inbox WHERE event_id = $1", event) == len(hearing)

    await eventually(heard, seconds=15)


async def test_without_nats_a_worker_is_ready_but_says_that_it_is_degraded(
    start: Start, own_nats: EmbeddedNats
) -> None:
    own_nats.stop()
    worker = start("worker")
    found = await worker.wait_ready()
    assert found["degraded"]
    assert {check["name"] for check in found["checks"] if not check["ok"]} == {"nats", "streams"}
    own_nats.start()

    async def whole() -> bool:
        return not (await worker.readiness())[1]["degraded"]

    await eventually(whole, seconds=15)


async def test_a_worker_at_another_migration_is_not_ready_and_says_which(stage: Stage, start: Start) -> None:
    await _set_version(stage.urls.superuser, "0000")
    worker = start("worker")
    found = await worker.wait_ready(status=503)
    reason = next(check["reason"] for check in found["checks"] if check["name"] == "migrations")
    assert "at migration 0000" in reason


async def test_a_worker_stops_within_ten_seconds_and_ends_well(start: Start) -> None:
    worker = start("worker")
    await worker.wait_ready()
    began = time.monotonic()
    assert await asyncio.to_thread(worker.terminate) == 0
    assert time.monotonic() - began < 10
    assert '"event":"stopped"' in worker.log


async def _set_version(url: str, version: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("UPDATE alembic_version SET version_num = $1", version)
    await connection.close()


async def _holds_some(worker: ProgramProcess) -> bool:
    found = re.search(rb"gpuaas_timers_held (\d+)", (await asyncio.to_thread(worker.ask, "/metrics"))[1])
    return found is not None and int(found[1]) > 0
