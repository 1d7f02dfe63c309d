"""The supervisor, with small real processes: what dies comes back, what dies too often is given up."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gpuaas.infra.embedded.child import Escalation
from gpuaas.infra.embedded.ports import free_port
from gpuaas.processes.up.errors import UpError
from gpuaas.processes.up.program import Program
from gpuaas.processes.up.supervisor import Patience, Supervisor
from gpuaas.processes.up.together import together

SERVES = """
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("content-length", "0"); self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVES
DIES = "import sys; print('the disk is on fire', flush=True); sys.exit(3)"
NEVER_READY = "import time; time.sleep(60)"
QUICK = Patience(deaths=3, first_pause_seconds=0.05, ready_seconds=20)


class Stage:
    """A supervisor and what it told."""

    def __init__(self, logs: Path, patience: Patience) -> None:
        self.logs = logs
        self.told: list[str] = []
        self.changes = 0
        self.supervisor = Supervisor(self.told.append, self._changed, patience)

    def _changed(self) -> None:
        self.changes += 1

    def program(self, name: str, code: str, stopping: Escalation = Program.stopping) -> Program:
        port = free_port()
        argv = (sys.executable, "-c", code, str(port), name)
        url = f"http://127.0.0.1:{port}/readyz"
        return Program(name, argv, dict(os.environ), url, self.logs, stopping)

    async def stop(self, *names: str, force: bool = False) -> None:
        forced = asyncio.Event()
        if force:
            forced.set()
        await self.supervisor.stop(names, forced)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    made = Stage(tmp_path, QUICK)
    yield made
    await made.stop(*made.supervisor.processes(), force=True)


async def until(holds, seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - other processes change it
            await asyncio.sleep(0.01)


async def test_a_part_is_started_once_it_answers(stage):
    seconds = await stage.supervisor.start(stage.program("web", SERVES))
    assert seconds < 20
    assert list(stage.supervisor.processes()) == ["web"]
    assert stage.told == []


async def test_a_part_that_is_killed_comes_back_and_both_are_told(stage):
    await stage.supervisor.start(stage.program("web", SERVES))
    first = stage.supervisor.processes()["web"]
    os.kill(first, signal.SIGKILL)
    await until(lambda: len(stage.told) == 2)
    assert stage.told[0] == "web ended (signal SIGKILL); starting it again in 0.05 s"
    assert stage.told[1].startswith("web is ready again after")
    assert stage.supervisor.processes()["web"] != first
    assert stage.changes == 2


async def test_pauses_between_starts_grow_and_have_a_limit():
    patience = Patience(first_pause_seconds=0.25, longest_pause_seconds=8)
    assert [patience.pause_after(deaths) for deaths in range(1, 9)] == [0.25, 0.5, 1, 2, 4, 8, 8, 8]


async def test_a_part_that_keeps_dying_is_given_up_with_the_end_of_its_log(stage):
    with pytest.raises(UpError, match=r"broken ended 3 times within a minute \(exit 3\)") as given_up:
        await stage.supervisor.start(stage.program("broken", DIES))
    assert given_up.value.quoted == ("the disk is on fire",) * 3
    assert len(stage.told) == 2


async def test_a_part_that_dies_later_too_often_fails_the_whole_run(stage):
    await stage.supervisor.start(stage.program("web", SERVES))
    for death in range(QUICK.deaths):
        await until(stage.supervisor.processes)
        os.kill(stage.supervisor.processes()["web"], signal.SIGKILL)
        await until(lambda seen=death: len([line for line in stage.told if "ended" in line]) > seen or seen == 2)
    assert "web ended 3 times" in str(await asyncio.wait_for(stage.supervisor.failure, 10))


async def test_old_deaths_are_forgotten(tmp_path):
    stage = Stage(tmp_path, Patience(deaths=2, window_seconds=0.2, first_pause_seconds=0.01))
    await stage.supervisor.start(stage.program("web", SERVES))
    for number in range(1, 4):
        await asyncio.sleep(0.3)
        os.kill(stage.supervisor.processes()["web"], signal.SIGKILL)
        await until(lambda wanted=number: len(stage.told) == 2 * wanted)
    assert not stage.supervisor.failure.done()
    await stage.stop("web")


async def test_a_part_that_never_becomes_ready_is_named(tmp_path):
    stage = Stage(tmp_path, Patience(ready_seconds=0.5))
    with pytest.raises(UpError, match="slow is not ready after"):
        await stage.supervisor.start(stage.program("slow", NEVER_READY))
    await stage.stop("slow")
    assert stage.supervisor.processes() == {}


async def test_a_program_that_does_not_exist_is_one_clear_line(stage):
    absent = Program("ghost", ("/nowhere/ghost",), {}, "http://127.0.0.1:1/", stage.logs)
    with pytest.raises(UpError, match=r"ghost cannot be started: .*No such file"):
        await stage.supervisor.start(absent)


async def test_parts_stop_one_after_the_other_in_the_given_order_and_stay_stopped(stage, tmp_path):
    order = tmp_path / "order"
    farewell = f"""
import signal, sys, time
def leave(*_):
    time.sleep(0.1)
    with open({str(order)!r}, "a") as file: file.write(sys.argv[2] + " ")
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
"""
    names = ("first", "second", "third")
    await together(*(_start(stage, stage.program(name, farewell + SERVES)) for name in names))
    assert set(stage.supervisor.processes()) == set(names)
    await stage.stop("second", "first", "third")
    assert order.read_text().split() == ["second", "first", "third"]
    assert stage.supervisor.processes() == {}
    assert stage.told == []


async def _start(stage: Stage, program: Program) -> None:
    await stage.supervisor.start(program)


async def test_one_who_does_not_stop_is_killed_after_its_time(stage):
    polite = ((signal.SIGTERM, 0.3), (signal.SIGKILL, 5.0))
    await stage.supervisor.start(stage.program("stubborn", STUBBORN, stopping=polite))
    began = time.monotonic()
    await stage.stop("stubborn")
    assert 0.3 <= time.monotonic() - began < 5
    assert stage.supervisor.processes() == {}


async def test_force_cuts_the_waiting_short(stage):
    await stage.supervisor.start(stage.program("stubborn", STUBBORN))
    force = asyncio.Event()
    stopping = asyncio.create_task(stage.supervisor.stop(["stubborn"], force))
    await asyncio.sleep(0.2)
    assert not stopping.done()
    force.set()
    await asyncio.wait_for(stopping, 2)
    assert stage.supervisor.processes() == {}


async def test_a_part_in_its_pause_can_be_stopped(tmp_path):
    stage = Stage(tmp_path, Patience(first_pause_seconds=60))
    await stage.supervisor.start(stage.program("web", SERVES))
    os.kill(stage.supervisor.processes()["web"], signal.SIGKILL)
    await until(lambda: stage.told)
    await asyncio.wait_for(stage.stop("web"), 2)
    assert stage.supervisor.processes() == {}


async def test_when_one_of_several_fails_the_others_are_cancelled_first():
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("waits")

    async def fails() -> None:
        await asyncio.sleep(0)
        raise UpError("no")

    with pytest.raises(UpError, match="no"):
        await together(waits(), fails())
    assert ended == ["waits"]


async def test_an_answer_other_than_200_is_not_ready(stage):
    starting = asyncio.create_task(_start(stage, stage.program("web", SERVES.replace("200", "503"))))
    await asyncio.sleep(0.6)
    assert not starting.done()
    starting.cancel()
