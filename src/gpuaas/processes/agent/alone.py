"""One agent in a process of its own, on the host its driver names."""

import asyncio
import os
import signal
from pathlib import Path

from gpuaas import __version__
from gpuaas.client.agent import AgentApi
from gpuaas.infra.hosts.linux.host import LinuxHost, LinuxSettings
from gpuaas.infra.hosts.linux.proving import AUTO, Proofs
from gpuaas.infra.hosts.simulated.control import Control
from gpuaas.infra.hosts.simulated.host import SimulatedHost
from gpuaas.infra.hosts.simulated.topology import TopologyRefused, read_description
from gpuaas.kit import clock
from gpuaas.ports.host import Host
from gpuaas.processes.agent.agent import Agent
from gpuaas.processes.agent.errors import AgentError
from gpuaas.processes.agent.identity import read_enrolment
from gpuaas.processes.agent.leases import nothing_strikes
from gpuaas.processes.agent.state_directory import StateDirectory
from gpuaas.processes.agent.tasks import Updater
from gpuaas.processes.agent.updates import LaunchedUpdater, NotLaunched, SimulatedUpdater, version_of

SIMULATED = "simulated:"
REPLACED = 75
"""Exit code: start me again, I am another version now."""


class Alone:
    def __init__(
        self, state: StateDirectory, driver: str, control: Path | None, launched: str, load_test: str = AUTO
    ) -> None:
        self._state = state
        self._folder = launched.strip("-") if launched == "-" else launched
        self._launched = bool(launched)
        self._version = version_of(state, self._folder) if self._folder else __version__
        self._leaving = asyncio.Event()
        self._updater: LaunchedUpdater | None = None
        self._simulated: SimulatedHost | None = None
        self._load_test = load_test
        self._host = self._chosen(driver)
        self._control_path = control
        if control is not None and self._simulated is None:
            raise AgentError("only a simulated host has faults on tap")

    async def run(self) -> int:
        simulated = self._simulated
        agent = Agent(
            self._state,
            self._host,
            self._make_updater,
            version=self._version_now,
            now=simulated.now if simulated else clock.now,
            on_healthy=self._healthy,
            passing=simulated.tap.point if simulated else nothing_strikes,
        )
        control = None
        if simulated is not None:
            simulated.tap.crash, simulated.tap.cut = _die, agent.api.pool.set_cut
            if self._control_path is not None:
                control = Control(self._control_path, lambda: [(simulated, str(agent.node_id))])
                await control.start()
        running, leaving = asyncio.create_task(agent.run()), asyncio.create_task(self._leaving.wait())
        try:
            await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            return REPLACED
        finally:
            running.cancel()
            leaving.cancel()
            await asyncio.wait({running, leaving})
            if control is not None:
                await control.stop()

    def _chosen(self, driver: str) -> Host:
        if driver == "linux":
            return LinuxHost(self._state.path / "host", LinuxSettings(proofs=Proofs(load_test=self._load_test)))
        if not driver.startswith(SIMULATED):
            raise AgentError(f"there is no driver {driver}: linux, or {SIMULATED}TOPOLOGY")
        try:
            description = read_description(driver.removeprefix(SIMULATED))
        except TopologyRefused as error:
            raise AgentError(str(error)) from None
        name = read_enrolment(self._state).name
        self._simulated = SimulatedHost(self._state.path / "host", description, name)
        return self._simulated

    def _make_updater(self, api: AgentApi) -> Updater:
        if self._launched:
            self._updater = LaunchedUpdater(self._state, api, self._folder, self._version, self._leaving.set)
            return self._updater
        return SimulatedUpdater(self._simulated, api, self._state.path) if self._simulated else NotLaunched()

    def _version_now(self) -> str:
        said = self._simulated.agent_version if self._simulated and not self._launched else ""
        return said or self._version

    async def _healthy(self) -> None:
        if self._updater is not None:
            await self._updater.healthy()


async def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
