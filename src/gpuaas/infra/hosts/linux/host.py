"""`ports.host.Host` on Linux: each verb reads what is there, acts through its own module, and answers in facts."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from gpuaas.contracts.tasks.catalogue import AccountResult, Cleaning, RevokeResult, SuspendResult
from gpuaas.contracts.tasks.topology import Check, Gpu, GpuFault, HostHealth, Topology
from gpuaas.infra.hosts.linux.accounts import Accounts, Terms
from gpuaas.infra.hosts.linux.device_access import DeviceAccess
from gpuaas.infra.hosts.linux.driver_thread import PATIENCE_SECONDS, DriverThread
from gpuaas.infra.hosts.linux.fault_journal import FaultJournal
from gpuaas.infra.hosts.linux.health import gpu_health, host_checks, missing_health
from gpuaas.infra.hosts.linux.inspection import inspect
from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.infra.hosts.linux.metrics import gpu_metrics, host_metrics
from gpuaas.infra.hosts.linux.nvml import LIBRARY, Card, Nvml, open_nvml
from gpuaas.infra.hosts.linux.proving import Proofs, Prover
from gpuaas.infra.hosts.linux.sanitising import RESET_SECONDS, memory_cleaning, missing_cleaning, reset_cleaning
from gpuaas.ports.host import HostFailed, PhaseTeller

MOST_FAULTS_TOLD = 64
INSPECT_SECONDS = 30.0
KILL_SECONDS = 10.0


@dataclass(frozen=True)
class LinuxSettings:
    layout: Layout = field(default_factory=Layout)
    terms: Terms = field(default_factory=Terms)
    nvml_library: str = LIBRARY
    proofs: Proofs = field(default_factory=Proofs)
    driver_patience_seconds: float = PATIENCE_SECONDS


class LinuxHost:
    def __init__(self, state: Path, settings: LinuxSettings | None = None) -> None:
        self._settings = settings or LinuxSettings()
        self._layout = self._settings.layout
        self._state = state
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._driver = DriverThread(self._settings.driver_patience_seconds)
        self._devices = DeviceAccess(self._layout)
        self._prover = Prover(self._settings.proofs)
        self._accounts = Accounts(self._layout, state, self._settings.terms, self._open_gpus)
        self._journal = FaultJournal(self._layout, state)
        self._nvml: Nvml | None = None
        self._inspected = False
        self._gpus: list[Gpu] = []

    async def inspect(self) -> Topology:
        return await self._driver.run(self._inspect, patience_seconds=INSPECT_SECONDS)

    async def health(self, serials: list[str], *, load: bool, tell: PhaseTeller) -> HostHealth:
        topology = await self.inspect()
        faults = await self.faults()
        known = {gpu.serial: gpu for gpu in topology.gpus}
        wanted = [known[serial] for serial in serials if serial in known] if serials else topology.gpus
        if load:
            self._require_free([gpu.serial for gpu in wanted])
        checks = await asyncio.to_thread(host_checks, self._layout, self._state, topology.gpus)
        checks.append(await asyncio.to_thread(self._devices.check, topology.gpus, self._accounts.openers()))
        await tell("host_checked", f"{len(wanted)} GPUs to look at")
        loaded = await self._loaded(wanted, tell) if load else {}
        cards = await self._driver.run(lambda: self._cards(wanted))
        gpus = [
            gpu_health(gpu, cards[gpu.serial], faults, has_nvml=self._nvml is not None, loaded=loaded.get(gpu.serial))
            for gpu in wanted
        ]
        gpus += [missing_health(serial) for serial in serials if serial not in known]
        healthy = all(check.passed for check in checks) and all(gpu.healthy for gpu in gpus)
        return HostHealth(healthy=healthy, checks=checks, gpus=gpus, faults=faults[:MOST_FAULTS_TOLD])

    async def faults(self) -> list[GpuFault]:
        await self._looked()  # a fault names an address; whose it is must be known first
        return await asyncio.to_thread(self._journal.pending)

    async def acknowledge(self, faults: list[GpuFault]) -> None:
        await asyncio.to_thread(self._journal.acknowledge, faults)

    async def metrics(self) -> dict[str, float]:
        await self._looked()

        def read() -> dict[str, float]:
            cards, numbers = self._cards(self._gpus), host_metrics(self._layout)
            for gpu in self._gpus:
                numbers |= gpu_metrics(gpu, cards[gpu.serial])
            return numbers

        return await self._driver.run(read)

    async def accounts(self) -> list[str]:
        return await self._accounts.logins()

    async def provision(self, login: str, ssh_keys: list[str], gpus: list[str], *, tell: PhaseTeller) -> AccountResult:
        given = await self._known(gpus) if gpus else []
        await self._looked()
        made = await self._accounts.provision(login, ssh_keys, gpus, tell)
        holders = await asyncio.to_thread(self._accounts.openers)
        if wrong := await asyncio.to_thread(self._devices.open_to_others, given, holders):
            raise HostFailed("device_access", f"not open to {login} alone: {'; '.join(wrong)[:500]}")
        return made

    async def revoke(self, login: str, *, tell: PhaseTeller) -> RevokeResult:
        await self._looked()
        return await self._accounts.revoke(login, tell)

    async def suspend(self, login: str, *, tell: PhaseTeller) -> SuspendResult:
        await self._looked()
        return await self._accounts.suspend(login, tell)

    async def drain(self, *, drained: bool) -> None:
        await self._accounts.drain(drained=drained)

    async def sanitise(self, serials: list[str], *, reimage: bool, tell: PhaseTeller) -> list[Cleaning]:
        if reimage:
            raise HostFailed("reimage_unsupported", "this host cannot install itself anew")
        cleanings: list[Cleaning] = []
        self._require_free(serials)
        gpus = {gpu.serial: gpu for gpu in (await self.inspect()).gpus} if serials else {}
        for serial in serials:
            gpu = gpus.get(serial)
            if gpu is None:  # gone, which is no reason not to clean its siblings
                cleanings.append(missing_cleaning(serial))
                continue
            await tell("clearing", gpu.serial)
            cleanings.append(await memory_cleaning(gpu, self._prover.clear))
            await tell("resetting", gpu.serial)
            cleanings.append(await self._reset(gpu))
        return cleanings

    async def _loaded(self, gpus: list[Gpu], tell: PhaseTeller) -> dict[str, Check]:
        """Every GPU gets an answer: one that was not tried has not passed. What waits for a reset is reset before."""
        if not gpus:
            await tell("load_skipped", "no GPU on this host")
            return {}
        cards = await self._driver.run(lambda: self._cards(gpus))
        for gpu in gpus:
            card = cards[gpu.serial]
            if card is not None and card.remap_pending and not card.processes:
                done = await self._reset(gpu)
                await tell("reset", f"{gpu.serial}: {done.evidence}"[:500])
        await tell("loading", f"{len(gpus)} GPUs")
        checks = await asyncio.gather(*(self._load(gpu, cards[gpu.serial]) for gpu in gpus))
        return {gpu.serial: check for gpu, check in zip(gpus, checks, strict=True)}

    async def _reset(self, gpu: Gpu) -> Cleaning:
        path = self._settings.proofs.path
        return await self._driver.run(
            lambda: reset_cleaning(self._layout, gpu, path), patience_seconds=RESET_SECONDS + KILL_SECONDS
        )

    async def _load(self, gpu: Gpu, card: Card | None) -> Check:
        if card is not None and card.processes:
            return Check(name="load", passed=False, detail=f"{card.processes} programs compute on it")
        return await self._prover.load(gpu, card)

    def _require_free(self, serials: list[str]) -> None:
        """Nobody's work is disturbed, and nobody's memory cleared."""
        holders = self._accounts.holders()
        if held := [serial for serial in serials if serial in holders]:
            raise HostFailed("gpu_in_use", f"an account has {', '.join(held)[:500]}")

    def _open_gpus(self, holders: dict[str, int]) -> None:
        self._devices.apply(self._gpus, holders)

    async def _looked(self) -> None:
        """Once since the start; not again where a driver that hangs would stop what has to be done."""
        if not self._inspected:
            await self.inspect()

    async def _known(self, serials: list[str]) -> list[Gpu]:
        if not serials:
            return []
        gpus = {gpu.serial: gpu for gpu in (await self.inspect()).gpus}
        if missing := [serial for serial in serials if serial not in gpus]:
            raise HostFailed("gpu_missing", f"not on this host: {', '.join(missing)[:500]}")
        return [gpus[serial] for serial in serials]

    def _inspect(self) -> Topology:
        if self._nvml is None:
            self._nvml = open_nvml(self._settings.nvml_library)
        topology = inspect(self._layout, self._nvml)
        self._journal.learn({gpu.address: gpu.serial for gpu in topology.gpus})
        self._gpus, self._inspected = topology.gpus, True
        return topology

    def _cards(self, gpus: list[Gpu]) -> dict[str, Card | None]:
        nvml = self._nvml
        return {gpu.serial: nvml.card(gpu.address) if nvml and gpu.driver == "nvidia" else None for gpu in gpus}
