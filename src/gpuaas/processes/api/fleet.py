"""What the API needs beside the database to speak with agents: hints that wake those who wait, and heartbeats gathered
for a moment."""

import asyncio

from gpuaas.domains.allocations.watching.service import Watchers
from gpuaas.domains.nodes.claims.service import TaskWaiters
from gpuaas.domains.nodes.liveness.service import Heartbeats
from gpuaas.domains.nodes.probes.addresses import networks
from gpuaas.domains.nodes.probes.service import ProbeRules
from gpuaas.domains.nodes.registry.models import Addresses
from gpuaas.infra.nats.bus import Bus
from gpuaas.infra.nats.hints import NatsHints
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.probing import TcpProber
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader
from gpuaas.processes.settings import Settings


class FleetTalk:
    def __init__(self, settings: Settings, db: Database, policy: PolicyReader) -> None:
        self._bus = Bus(settings.nats_url, "api")
        self._hints = NatsHints(self._bus)
        db.hints = self._hints
        self._waiters = TaskWaiters(db, self._hints)
        self._heartbeats = Heartbeats(db, policy)
        self._watchers = Watchers(self._hints)
        self._addresses = Addresses(public_url=settings.public_url.rstrip("/"))
        self._rules = ProbeRules(networks(settings.probe_networks))

    def add_to(self, parts: Parts) -> None:
        for part in (
            self._hints,
            self._waiters,
            self._heartbeats,
            self._watchers,
            self._addresses,
            self._rules,
            TcpProber(),
        ):
            parts.add(part)

    async def run(self) -> None:
        """Until cancelled. The API serves whether or not NATS is there: then agents wait up to a second longer."""
        self._bus.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._hints.run())
                group.create_task(self._waiters.follow())
        finally:
            await self._bus.stop()
