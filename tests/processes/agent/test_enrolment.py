"""Becoming a node, from the command line: once, entirely, and privately."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpuaas.kit.ids import new_id
from tests.processes.agent.conftest import AgentProcess
from tests.support.agent_plane import Plane, until

SERVER_PACKAGES = ("asyncpg", "starlette", "uvicorn", "nats", "sqlalchemy", "alembic", "opentelemetry", "uvloop")


async def gpuaas(*arguments: str) -> tuple[int, str]:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gpuaas", *arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ
    )
    output, _ = await child.communicate()
    assert child.returncode is not None
    return child.returncode, output.decode()


async def enrol(plane: Plane, state: Path, token: str, *more: str) -> tuple[int, str]:
    url = f"http://127.0.0.1:{plane.http_port}"
    return await gpuaas("agent", "enrol", "--url", url, "--token", token, "--state-dir", str(state), *more)


async def test_the_printed_command_makes_a_node_that_runs(plane: Plane, agent: AgentProcess) -> None:
    token, node_id = "t" * 40, new_id()
    plane.tokens[token] = node_id
    code, output = await enrol(plane, agent.state, token)
    assert code == 0, output
    assert str(node_id) in output
    modes = {path.name: path.stat().st_mode & 0o777 for path in agent.state.iterdir() if path.is_file()}
    assert set(modes.values()) == {0o600}
    assert agent.state.stat().st_mode & 0o777 == 0o700
    await agent.start()
    await until(lambda: plane.nodes[node_id].beats, 20, "a heartbeat")
    assert agent.terminate() == 0


async def test_a_used_token_and_a_second_enrolment_are_refused_with_one_line(plane: Plane, tmp_path: Path) -> None:
    plane.tokens["t" * 40] = new_id()
    assert (await enrol(plane, tmp_path / "one", "t" * 40))[0] == 0
    code, output = await enrol(plane, tmp_path / "two", "t" * 40)
    assert (code, output.count("\n")) == (1, 1)
    assert not (tmp_path / "two" / "agent.json").exists()
    code, output = await enrol(plane, tmp_path / "one", "u" * 40)
    assert (code, output.count("\n")) == (1, 1)
    assert "--replace" in output
    plane.tokens["v" * 40] = new_id()
    assert (await enrol(plane, tmp_path / "one", "v" * 40, "--replace"))[0] == 0


@pytest.mark.parametrize("name", [".", "identity.pem", "tasks.jsonl", "trust.json", "agent.json"])
async def test_state_that_others_can_read_is_refused_with_one_clear_line(
    plane: Plane, tmp_path: Path, name: str
) -> None:
    plane.make_node(tmp_path / "state")
    (tmp_path / "state" / name).chmod(0o755)
    code, output = await gpuaas("agent", "run", "--state-dir", str(tmp_path / "state"), "--driver", "simulated:4xl40s")
    lines = [line for line in output.splitlines() if not line.startswith("{")]
    assert code == 1
    assert len(lines) == 1
    assert "chmod" in lines[0]


async def test_a_token_does_not_travel_in_the_clear_to_another_machine(tmp_path: Path) -> None:
    code, output = await gpuaas(
        "agent", "enrol", "--url", "http://192.0.2.1", "--token", "t" * 40, "--state-dir", str(tmp_path / "s")
    )
    assert code == 1
    assert "plain http" in output


def test_the_agent_imports_nothing_of_the_server() -> None:
    script = "import sys, gpuaas.processes.agent.main as m; m.parser();print('\\n'.join(sorted(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    of_the_server = re.compile(rf"({'|'.join(SERVER_PACKAGES)})(\..*)?|gpuaas\.domains.*|gpuaas\.infra\.(?!hosts).*")
    assert [name for name in loaded if of_the_server.fullmatch(name)] == []
