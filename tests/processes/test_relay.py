"""`gpuaas relay` as a process: probes, stopping, dying in the middle of its work."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import nats
import pytest

from gpuaas.infra.embedded.nats import EmbeddedNats
from gpuaas.infra.postgres.database import Database
from tests.support.events import Stage, eventually
from tests.support.programs import ProgramProcess
from tests.support.servers import DatabaseUrls, clone

Start = Callable[[str], ProgramProcess]


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

    def start_one(name: str) -> ProgramProcess:
        made.append(ProgramProcess(name, stage.urls.app, stage.nats_url, tmp_path / f"{name}{len(made)}.log"))
        return made[-1].start()

    yield start_one
    for program in made:
        program.kill()


async def test_a_relay_is_ready_says_so_publishes_and_stops_when_told(stage: Stage, start: Start) -> None:
    relay = start("relay")
    found = await relay.wait_ready()
    assert found["ready"]
    assert {check["name"] for check in found["checks"]} == {"database", "migrations", "nats", "streams"}
    assert relay.ask("/healthz")[0] == 200
    assert relay.ask("/nothing")[0] == 404
    assert relay.ask("/healthz", "POST")[0] == 405
    await stage.emit(1_200)
    await eventually(lambda: _none_left(stage), seconds=20)
    status, metrics = relay.ask("/metrics")
    assert status == 200
    assert b"gpuaas_outbox_published_total 1200.0" in metrics
    assert b"gpuaas_relay_leading 1.0" in metrics
    began = time.monotonic()
    assert await asyncio.to_thread(relay.terminate) == 0
    assert time.monotonic() - began < 10


async def test_without_nats_a_relay_says_what_is_missing_and_goes_on_when_it_is_back(
    stage: Stage, start: Start, own_nats: EmbeddedNats
) -> None:
    relay = start("relay")
    await relay.wait_ready()
    own_nats.kill()
    found = await relay.wait_ready(status=503)
    missing = [check for check in found["checks"] if not check["ok"]]
    assert {check["name"] for check in missing} == {"nats", "streams"}
    assert "NATS is away" in missing[0]["reason"]
    assert own_nats.url.split("@")[0].rsplit(":", 1)[1] not in str(found), "the password is in the probe"
    await stage.emit(100)
    own_nats.start()
    await eventually(lambda: _none_left(stage), seconds=20)
    await relay.wait_ready()


async def test_a_relay_killed_between_publishing_and_marking_loses_and_doubles_nothing(
    stage: Stage, start: Start
) -> None:
    stage.record("test.killed_relay")
    client = await nats.connect(stage.nats_url)
    hits, ids = 0, set()
    async with stage.worker():
        for _ in range(30):
            relay = start("relay")
            await relay.wait_ready()
            ids |= await stage.emit(1_000)
            await asyncio.sleep(random.uniform(0.01, 0.06))
            relay.kill()
            marked = int(str(await stage.value("SELECT count(*) FROM outbox WHERE published_at IS NOT NULL")))
            in_stream = (await client.jetstream().stream_info("PLATFORM")).state.messages
            hits += in_stream > marked
            if hits >= 2:
                break
        assert hits, "no kill fell between publishing and marking"
        start("relay")
        await stage.wait_handled("test.killed_relay", ids, seconds=60)
    assert (await client.jetstream().stream_info("PLATFORM")).state.messages == len(ids), "the stream took one twice"
    await client.close()


async def test_the_second_relay_leads_when_the_first_is_killed(stage: Stage, start: Start) -> None:
    first = start("relay")
    await first.wait_ready()
    await eventually(lambda: _leads(first))
    second = start("relay")
    await second.wait_ready()
    assert b"gpuaas_relay_leading 0.0" in second.ask("/metrics")[1]
    first.kill()
    await eventually(lambda: _leads(second), seconds=10)
    await stage.emit(10)
    await eventually(lambda: _none_left(stage))


@pytest.mark.parametrize("name", ["relay", "worker"])
async def test_wrong_settings_and_a_taken_port_are_one_clear_line(start: Start, name: str) -> None:
    first = start(name)
    await first.wait_ready()
    second = start(name)
    second.kill()
    second.settings |= {"GPUAAS_METRICS_PORT": str(first.port)}
    second.start()
    assert await asyncio.to_thread(second.wait, 15) == 1
    assert f"cannot listen on 127.0.0.1 port {first.port}" in second.log.strip().splitlines()[-1]
    second.settings |= {"GPUAAS_NATS_URL": "http://nowhere"}
    second.start()
    assert await asyncio.to_thread(second.wait, 15) == 2
    assert second.log.strip().splitlines()[-1].startswith(f"gpuaas {name}: GPUAAS_NATS_URL must start with")


async def _none_left(stage: Stage) -> bool:
    return await stage.unpublished() == 0


async def _leads(relay: ProgramProcess) -> bool:
    return b"gpuaas_relay_leading 1.0" in (await asyncio.to_thread(relay.ask, "/metrics"))[1]
