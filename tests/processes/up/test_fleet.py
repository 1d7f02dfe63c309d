"""The demo's fleet, against the real api and worker: nodes that enrol, work, break and come back; and one more."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from gpuaas.client.simulation import ask, sockets_in
from gpuaas.contracts.simulation import ControlRequest, Do
from gpuaas.infra.embedded.home import make_temporary_directory
from gpuaas.kit import clock
from gpuaas.processes.settings import Settings
from gpuaas.processes.up.fleet_seed import enrolments_file, seed_fleet
from tests.processes.up.conftest import Up, end, wait_until

HEALTHY = """
SELECT count(*) FROM nodes n JOIN node_heartbeats h ON h.node_id = n.id
WHERE n.state = 'active' AND h.liveness = 'online' AND n.host_healthy AND n.differences = '{}'
"""
TASKS_LEFT = "SELECT count(*) FROM tasks WHERE state NOT IN ('done')"
LIVENESS = "SELECT liveness FROM node_heartbeats h JOIN nodes n ON n.id = h.node_id WHERE n.name = $1"
SEEN = """
SELECT extract(epoch FROM seen_at)::float FROM node_heartbeats h JOIN nodes n ON n.id = h.node_id WHERE n.name = $1
"""
QUARANTINED = """
SELECT array_agg(q.reason) FROM slot_quarantines q JOIN nodes n ON n.id = q.node_id
WHERE n.name = $1 AND q.ended_at IS NULL
"""


@pytest.fixture(scope="module")
def fleet() -> Iterator[Up]:
    place = make_temporary_directory()
    shared = Up(place)
    shared.start("--fleet", "3")
    yield shared
    end(shared)


def asked(fleet: Up, sql: str, *arguments: object) -> Any:
    async def run() -> Any:
        connection = await asyncpg.connect(fleet.ready()["database_owner_url"])
        try:
            return await connection.fetchval(sql, *arguments)
        finally:
            await connection.close()

    return asyncio.run(run())


def fault(fleet: Up, do: Do, node: str, **how: Any) -> None:
    answer = ask(sockets_in(fleet.data / "fleet"), ControlRequest(do=do, node=node, **how))
    assert answer.ok, answer.message


def test_every_node_of_the_demo_is_enrolled_inspected_and_healthy(fleet: Up) -> None:
    wait_until(lambda: asked(fleet, HEALTHY) == 3, "three healthy nodes", 60)
    wait_until(lambda: asked(fleet, TASKS_LEFT) == 0, "all tasks done", 30)
    assert asked(fleet, "SELECT count(*) FROM slots") == 8 + 4 + 8


def test_a_gpu_that_falls_off_the_bus_is_quarantined_within_five_seconds_alone(fleet: Up) -> None:
    wait_until(lambda: asked(fleet, HEALTHY) == 3, "three healthy nodes", 60)
    began = clock.monotonic()
    fault(fleet, Do.LOSE_GPU, "demo-001", gpu=3, xid=79)
    wait_until(lambda: asked(fleet, QUARANTINED, "demo-001") == ["XID 79"], "the quarantine", 20)
    assert clock.monotonic() - began < 5
    fault(fleet, Do.CLEAR, "demo-001")


def test_a_cut_agent_becomes_unknown_and_recovers_by_itself(fleet: Up) -> None:
    wait_until(lambda: asked(fleet, LIVENESS, "demo-002") == "online", "it is online", 60)
    fault(fleet, Do.DROP_NETWORK, "demo-002")
    wait_until(lambda: asked(fleet, LIVENESS, "demo-002") == "unknown", "it is unknown", 60)
    assert asked(fleet, LIVENESS, "demo-003") == "online"
    fault(fleet, Do.CLEAR, "demo-002")
    wait_until(lambda: asked(fleet, LIVENESS, "demo-002") == "online", "it is back", 60)


def test_a_killed_fleet_comes_back_with_the_same_nodes(fleet: Up) -> None:
    before = fleet.ready()["programs"]["fleet"]
    os.kill(before, signal.SIGKILL)
    killed_at = asked(fleet, "SELECT extract(epoch FROM now())::float")
    wait_until(lambda: asked(fleet, SEEN, "demo-003") > killed_at + 1, "a heartbeat after it", 60)
    assert asked(fleet, "SELECT count(*) FROM nodes") == 3


def test_one_more_machine_enrols_with_its_token_and_works(fleet: Up) -> None:
    ready, directory = fleet.ready(), fleet.place / "machine"
    token = _token_of_a_fourth(ready["database_url"], fleet.place / "more")
    argv = [sys.executable, "-m", "gpuaas", "agent"]
    enrol = [*argv, "enrol", "--url", ready["url"], "--token", token, "--state-dir", str(directory)]
    said = subprocess.run(enrol, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    run = [*argv, "run", "--state-dir", str(directory), "--driver", "simulated:8xh200"]
    with (fleet.place / "machine.log").open("wb") as log:
        agent = subprocess.Popen(run, stdout=log, stderr=log)
    try:
        wait_until(lambda: asked(fleet, LIVENESS, "demo-004") == "online", "it is online", 60)
        done = "SELECT count(*) FROM tasks t JOIN nodes n ON n.id = t.node_id WHERE n.name = $1 AND t.state = 'done'"
        wait_until(lambda: asked(fleet, done, "demo-004") >= 2, "its first tasks", 60)
    finally:
        agent.terminate()
        assert agent.wait(20) == 0


def _token_of_a_fourth(database_url: str, directory: Path) -> str:
    """Nodes 1 to 3 are enrolled, as far as this directory shows."""
    for number in (1, 2, 3):
        (directory / f"demo-00{number}").mkdir(parents=True)
        (directory / f"demo-00{number}" / "agent.json").touch()
    settings = Settings(database_url=database_url, nats_url="nats://x", master_key="", public_url="http://x")
    asyncio.run(seed_fleet(settings, directory, 4))
    last = (directory / enrolments_file(0)).read_text().splitlines()[-1]
    return str(json.loads(last)["token"])
