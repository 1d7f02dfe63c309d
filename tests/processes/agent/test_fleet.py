"""Many simulated nodes in one process: each its own, none costing much, one crash one node's."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from gpuaas.client.simulation import ask
from gpuaas.contracts.simulation import ControlRequest, Do, Point
from gpuaas.contracts.tasks.base import Outcome
from gpuaas.contracts.tasks.catalogue import Drain, Inspect, InspectResult
from gpuaas.kit.ids import new_id
from tests.support.agent_plane import Plane, rss_bytes, until

NODES = 60
MOST_PER_NODE = 512 * 1024


@pytest.mark.slow
async def test_a_fleet_enrols_runs_and_stays_small(plane: Plane, tmp_path: Path) -> None:
    folder, nodes = tmp_path / "fleet", {f"sim-{number:03}": new_id() for number in range(NODES)}
    folder.mkdir(mode=0o700)
    plane.names = {node_id: name for name, node_id in nodes.items()}
    lines = []
    for name, node_id in nodes.items():
        plane.tokens[f"{name}-{'t' * 30}"] = node_id
        lines.append(json.dumps({"name": name, "token": f"{name}-{'t' * 30}", "topology": "8xh200"}))
    (folder / "enrolments.jsonl").write_text("\n".join(lines))
    (folder / "enrolments.jsonl").chmod(0o600)
    process = _start(plane, folder)
    try:
        await until(lambda: all(plane.nodes[node_id].beats for node_id in nodes.values()), 90, "all heartbeats")
        serials = set()
        for node_id in nodes.values():
            report = await plane.result(node_id, plane.give(node_id, Inspect()))
            serials |= {gpu.serial for gpu in msgspec.json.decode(report.result, type=InspectResult).topology.gpus}
        assert len(serials) == NODES * 8
        await asyncio.sleep(2)
        assert (rss_bytes(process.pid) - 45 * 1024 * 1024) / NODES < MOST_PER_NODE
        await _crash_one(plane, folder / "0.sock", nodes)
    finally:
        process.terminate()
        assert process.wait(20) == 0


async def _crash_one(plane: Plane, socket: Path, nodes: dict[str, UUID]) -> None:
    victim = nodes["sim-007"]
    await asyncio.to_thread(ask, [socket], ControlRequest(do=Do.CRASH_MID_TASK, node="sim-007", at=Point.DURING))
    report = await plane.result(victim, plane.give(victim, Drain()))
    assert report.outcome is Outcome.DONE
    status = await asyncio.to_thread(ask, [socket], ControlRequest(do=Do.STATUS))
    assert len(status.nodes) == NODES
    assert not [node for node in status.nodes if node.faults]


def _start(plane: Plane, folder: Path) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "gpuaas", "agent", "fleet", "--state-dir", str(folder)]
    argv += ["--url", f"http://127.0.0.1:{plane.http_port}", "--control", str(folder / "0.sock")]
    return subprocess.Popen(argv, env=os.environ)
