"""`gpuaas agent fleet`: many simulated nodes in one process, each with its own directory, key, certificate and fate.
One that fails, or is crashed on purpose, starts again alone."""

import asyncio
from asyncio import sslproto
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gpuaas import __version__
from gpuaas.client.api import Api
from gpuaas.client.errors import ApiError, Unreachable
from gpuaas.infra.hosts.simulated.control import Control
from gpuaas.infra.hosts.simulated.host import SimulatedHost
from gpuaas.infra.hosts.simulated.topology import Description, TopologyRefused, read_description
from gpuaas.kit import log
from gpuaas.processes.agent.agent import Agent
from gpuaas.processes.agent.backoff import Backoff
from gpuaas.processes.agent.enrolment import enrol
from gpuaas.processes.agent.errors import AgentError
from gpuaas.processes.agent.identity import ENROLMENT, read_enrolment
from gpuaas.processes.agent.state_directory import StateDirectory
from gpuaas.processes.agent.updates import SimulatedUpdater

ENROL_AT_ONCE = 4
TLS_BUFFER = 32 * 1024
TOPOLOGY_FILE = "topology"


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One node to be: a line of the enrolments' file. A token is used once; enrolled already, it is ignored."""

    name: str
    token: str = ""
    topology: str = ""


@dataclass
class FleetNode:
    """A simulated node and its agent, which may be away for the moment."""

    state: StateDirectory
    host: SimulatedHost
    node_id: str = ""
    running: asyncio.Task[None] | None = None

    async def keep(self) -> None:
        """Run its agent for ever."""
        backoff = Backoff()
        while True:
            try:
                agent = Agent(
                    self.state,
                    self.host,
                    lambda api: SimulatedUpdater(self.host, api, self.state.path),
                    version=lambda: self.host.agent_version or __version__,
                    now=self.host.now,
                    passing=self.host.tap.point,
                )
                self.node_id = str(agent.node_id)
                self.host.tap.crash, self.host.tap.cut = self._crash, agent.api.pool.set_cut
                agent.api.pool.cut = self.host.tap.network_dropped
                self.running = asyncio.create_task(agent.run())
                await asyncio.wait({self.running})
                if not self.running.cancelled() and self.running.exception() is not None:
                    log.get_logger().error("an agent failed", node=self.host.name, exc_info=self.running.exception())
            except AgentError as error:
                log.get_logger().error("an agent cannot run", node=self.host.name, why=str(error))
            finally:
                if self.running is not None and not self.running.done():
                    self.running.cancel()
                    await asyncio.wait({self.running})
            await asyncio.sleep(backoff.next())

    async def _crash(self) -> None:
        log.get_logger().warning("crashed on purpose", node=self.host.name)
        if self.running is not None:
            self.running.cancel()
        await asyncio.Event().wait()


class Fleet:
    def __init__(self, directory: StateDirectory, control: Path | None) -> None:
        self._directory = directory
        self._nodes: list[FleetNode] = []
        self._control = Control(control, self._hosts) if control is not None else None
        self._descriptions: dict[str, Description] = {}
        # asyncio keeps a buffer of this size for each TLS connection; ours carry small messages.
        sslproto.SSLProtocol.max_size = TLS_BUFFER

    async def run(self, places: list[Place], url: str, topology: str) -> None:
        """These places, each enrolled first if it is not; or all that are enrolled, when none is named."""
        if self._control is not None:
            await self._control.start()
        places = places or [Place(name=path.name) for path in self._enrolled()]
        turns = asyncio.Semaphore(ENROL_AT_ONCE)
        with Api(url) as api:
            lives = [asyncio.create_task(self._live(place, api, topology, turns), name=place.name) for place in places]
            try:
                await asyncio.gather(*lives)
            finally:
                for life in lives:
                    life.cancel()
                await asyncio.gather(*lives, return_exceptions=True)
                if self._control is not None:
                    await self._control.stop()

    async def _live(self, place: Place, api: Api, topology: str, turns: asyncio.Semaphore) -> None:
        async with turns:
            state = StateDirectory.make(self._directory.path / place.name)
            if not await self._is_enrolled(state, place, api, topology):
                return
            kept = state.read(TOPOLOGY_FILE)
            host = SimulatedHost(state.path / "host", self._described(kept.decode() if kept else topology), place.name)
        node = FleetNode(state, host, node_id=str(read_enrolment(state).node_id))
        self._nodes.append(node)
        await node.keep()

    async def _is_enrolled(self, state: StateDirectory, place: Place, api: Api, topology: str) -> bool:
        """Enrol it, as slowly as the control plane asks; one that cannot be enrolled is said, and the others run."""
        backoff = Backoff(longest=1.0)
        while state.read(ENROLMENT) is None:
            state.write(TOPOLOGY_FILE, (place.topology or topology).encode())
            try:
                await asyncio.to_thread(enrol, state, api, token=place.token, version=__version__)
            except AgentError as error:
                refusal = error.__cause__
                later = isinstance(refusal, Unreachable) or (
                    isinstance(refusal, ApiError) and refusal.status in (429, 503)
                )
                if not later:
                    log.get_logger().error("cannot enrol", node=place.name, why=str(error))
                    return False
                asked = refusal.retry_after if isinstance(refusal, ApiError) else None
                await asyncio.sleep(backoff.next(asked or 0.0))
        return True

    def _enrolled(self) -> list[Path]:
        return sorted(path for path in self._directory.path.iterdir() if (path / ENROLMENT).is_file())

    def _hosts(self) -> Iterator[tuple[SimulatedHost, str]]:
        return ((node.host, node.node_id) for node in self._nodes)

    def _described(self, topology: str) -> Description:
        if topology not in self._descriptions:
            try:
                self._descriptions[topology] = read_description(topology)
            except TopologyRefused as error:
                raise AgentError(str(error)) from None
        return self._descriptions[topology]


def read_places(state: StateDirectory, name: str) -> list[Place]:
    """The enrolments' file: JSON lines."""
    content = state.read(name)
    if content is None:
        return []
    try:
        return [msgspec.json.decode(line, type=Place) for line in content.splitlines() if line.strip()]
    except msgspec.MsgspecError as error:
        raise AgentError(f"{state.path / name} is not as it must be: {error}") from None
