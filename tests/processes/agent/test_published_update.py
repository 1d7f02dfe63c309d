"""An agent becomes a version that an operator published, through the real API, and comes back from a broken one."""

import io
import os
import shlex
import sys
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gpuaas import __version__
from tests.processes.agent.conftest import AgentProcess
from tests.support.control_plane import ControlPlane, control_plane
from tests.support.servers import DatabaseUrls

GOOD = "from gpuaas.processes.agent.main import main\nsys.exit(main(sys.argv[1:]))\n"
BROKEN = "sys.exit(3)\n"
LARGE = os.urandom(5_000_000)
"""Beside the program, so that it takes several parts."""


def packed(folder: Path, name: str, program: str) -> str:
    text = f"#!{sys.executable}\nimport sys\n{program}".encode()
    file = folder / name
    with tarfile.open(file, mode="w:gz") as tar:
        for entry, content in ((tarfile.TarInfo("agent"), text), (tarfile.TarInfo("lib/data"), LARGE)):
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
    return str(file)


@pytest.fixture
async def plane(
    database: DatabaseUrls, nats_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    async with control_plane(database, nats_url, tmp_path_factory.mktemp("plane")) as running:
        yield running


@pytest.mark.slow
async def test_a_published_version_is_taken_over_and_a_broken_one_is_rolled_back(
    plane: ControlPlane, tmp_path: Path
) -> None:
    operator, agent = plane.operator, AgentProcess(tmp_path / "state", verb="launch", driver="simulated:8xh200")
    name, line = await plane.invited(await plane.sku())
    enrolled = await operator.run(*shlex.split(line)[1:], "--state-dir", str(agent.state))
    assert enrolled.code == 0, enrolled.said
    await agent.start()
    try:
        assert "done" in await operator.good("nodes", "inspect", name, "--wait")
        assert (await plane.node(name))["agent_version"] == __version__

        good = packed(tmp_path, "good.tar.gz", GOOD)
        told = await operator.good("nodes", "artifacts", "publish", good, "--version", "2.0.0")
        assert "published" in told
        assert "done" in await operator.good("nodes", "update", name, "--version", "2.0.0", "--wait")
        assert (await plane.node(name))["agent_version"] == "2.0.0"

        await operator.good("nodes", "artifacts", "publish", packed(tmp_path, "b", BROKEN), "--version", "3.0.0")
        order = await operator.run("nodes", "update", name, "--version", "3.0.0", "--wait")
        assert order.code == 1, order.said
        assert "The agent is 2.0.0 again: it ended with 3 before it was healthy." in order.err
        assert (await plane.node(name))["agent_version"] == "2.0.0"
        assert "done" in await operator.good("nodes", "check", name, "--wait")

        assert (await operator.run("nodes", "artifacts", "publish", good, "--version", "2.0.0")).code == 6
        await operator.good("nodes", "artifacts", "retire", "2.0.0", "--reason", "old", "--yes")
        refused = await operator.run("nodes", "update", name, "--version", "2.0.0")
        assert refused.code == 5, refused.said
        listed = await operator.rows("nodes", "artifacts", "list")
        assert [(one["version"], one["state"]) for one in listed] == [("2.0.0", "retired"), ("3.0.0", "published")]
    finally:
        agent.kill()
