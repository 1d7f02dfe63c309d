"""An agent as a process of its own, against a control plane in this one."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gpuaas.client.simulation import ask
from gpuaas.contracts.simulation import ControlAnswer, ControlRequest
from gpuaas.infra.hosts.simulated.host import SimulatedHost
from gpuaas.infra.hosts.simulated.topology import read_description
from gpuaas.processes.agent.agent import Agent
from gpuaas.processes.agent.state_directory import StateDirectory
from gpuaas.processes.agent.updates import SimulatedUpdater
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


class AgentHere:
    """An agent in this process, with its simulated host."""

    def __init__(self, plane: Plane, path: Path) -> None:
        self.node_id = plane.make_node(path)
        self.state = StateDirectory.open(path)
        self.host = SimulatedHost(path / "host", read_description("4xl40s"), "node-1")
        self._running: asyncio.Task[None] | None = None

    def start(self) -> "AgentHere":
        agent = Agent(
            self.state,
            self.host,
            lambda api: SimulatedUpdater(self.host, api, self.state.path),
            version=lambda: self.host.agent_version or "0.0.1",
            now=self.host.now,
        )
        self.host.tap.cut = agent.api.pool.set_cut
        self._running = asyncio.create_task(agent.run())
        return self

    @property
    def alive(self) -> bool:
        return self._running is not None and not self._running.done()

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})


@pytest.fixture
async def here(plane: Plane, tmp_path: Path) -> AsyncIterator[AgentHere]:
    here = AgentHere(plane, tmp_path / "here").start()
    yield here
    await here.stop()


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
