"""An agent as a process of its own, against a control plane in this one."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gpuaas.client.simulation import ask
from gpuaas.contracts.simulation import ControlAnswer, ControlRequest
from tests.support.agent_plane import Plane, until


class AgentProcess:
    """`gpuaas agent run` with a simulated host."""

    def __init__(self, state: Path, verb: str = "run", driver: str = "simulated:4xl40s") -> None:
        self.state = state
        self.socket = state / "control.sock"
        self._verb = verb
        self._driver = driver
        self._log = state.with_suffix(".log")
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self) -> "AgentProcess":
        argv = [sys.executable, "-m", "gpuaas", "agent", self._verb, "--state-dir", str(self.state)]
        argv += ["--driver", self._driver, "--control", str(self.socket)]
        self.socket.unlink(missing_ok=True)
        with self._log.open("ab") as out:
            self.process = subprocess.Popen(argv, stdout=out, stderr=out, env=os.environ)
        await until(lambda: self.socket.exists() or self.ended, 20, "the agent's control socket")
        return self

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def ask(self, request: ControlRequest) -> ControlAnswer:
        return ask([self.socket], request)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait(10)

    def terminate(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(20)


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    plane = await Plane(tmp_path).start()
    yield plane
    await plane.stop()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    agent = AgentProcess(tmp_path / "state")
    yield agent
    agent.kill()
