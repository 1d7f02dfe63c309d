"""The simulated host: `ports.host.Host` over a reality on disk. Every verb looks at what is there, changes only what is
not as asked, and writes each real change into the host's diary once, so that a repeated verb has one effect."""

import asyncio
import math
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gpuaas.contracts.simulation import NodeStatus, Point
from gpuaas.contracts.tasks.catalogue import (
    AccountResult,
    Cleaning,
    CleaningMethod,
    Leftovers,
    RevokeResult,
    Running,
    SuspendResult,
)
from gpuaas.contracts.tasks.topology import Check, Gpu, GpuFault, GpuHealth, HostHealth, Topology
from gpuaas.infra.hosts.simulated import accounts as shells
from gpuaas.infra.hosts.simulated.store import Account, RealityStore
from gpuaas.infra.hosts.simulated.tap import Tap, kind_of, skewed
from gpuaas.infra.hosts.simulated.topology import Description, build
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from gpuaas.ports.host import HostFailed, PhaseTeller

HOST = "*"
LOAD_SECONDS = 0.2


class SimulatedHost:
    def __init__(self, directory: Path, description: Description, name: str) -> None:
        self.name = name
        self.tap = Tap()
        self._store = RealityStore(directory)
        self._description = description
        self.homes = directory / "homes"
        self.now: Callable[[], datetime] = skewed(lambda: self._store.now.skew_seconds)

    # looking ---------------------------------------------------------------------------------------------------------
    async def inspect(self) -> Topology:
        await self.tap.point(Point.BEFORE)
        await self.tap.point(Point.DURING)
        whole = self._whole()
        await self.tap.point(Point.AFTER)
        here = [gpu for gpu in whole.gpus if gpu.serial not in self._store.now.lost]
        return msgspec.structs.replace(whole, gpus=here)

    async def health(self, serials: list[str], *, load: bool, tell: PhaseTeller) -> HostHealth:
        await self.tap.point(Point.BEFORE)
        here = {gpu.serial: gpu for gpu in self._whole().gpus}
        wanted = serials or list(here)
        if load and (held := [serial for serial in wanted if self._held(serial)]):
            raise HostFailed("gpu_in_use", f"an account has {', '.join(held)[:500]}")
        await tell("checking", f"{len(wanted)} GPUs")
        await self.tap.point(Point.DURING)
        if load:
            await tell("load", "all of them at once")
            await asyncio.sleep(LOAD_SECONDS)
        gpus = [self._gpu_health(serial, here.get(serial), load=load) for serial in wanted]
        failing = HOST in self._store.now.unhealthy
        checks = [
            Check(name="driver", passed=not failing, detail="fails on request" if failing else ""),
            Check(name="disk", passed=True, detail="simulated"),
        ]
        await self.tap.point(Point.AFTER)
        return HostHealth(
            healthy=not failing and all(gpu.healthy for gpu in gpus),
            checks=checks,
            gpus=gpus,
            faults=self._store.now.faults[:64],
        )

    async def faults(self) -> list[GpuFault]:
        return list(self._store.now.faults)

    async def acknowledge(self, faults: list[GpuFault]) -> None:
        self._store.now.faults = [fault for fault in self._store.now.faults if fault not in faults]
        self._store.save()

    async def metrics(self) -> dict[str, float]:
        """Plausible, and different for each GPU: it follows the time of day and the GPU's number. Nobody computes on a
        GPU unless it was asked for."""
        reality, at = self._store.now, clock.epoch_s()
        values = {
            "host.load1": round(4 + 3 * math.sin(at / 600), 2),
            "host.memory_used_bytes": round(self._description.memory_bytes * (0.2 + 0.1 * math.sin(at / 3600))),
            "host.accounts": float(len(reality.accounts)),
        }
        for gpu in self._whole().gpus:
            if gpu.serial in reality.lost:
                continue
            percent = reality.busy.get(gpu.serial, 1 + math.sin(at / 120 + gpu.index))
            busy = percent / 100
            values |= {
                f"gpu.{gpu.serial}.utilisation_percent": round(percent, 1),
                f"gpu.{gpu.serial}.temperature_c": round(34 + 42 * busy + gpu.index % 3, 1),
                f"gpu.{gpu.serial}.power_w": round(75 + 600 * busy, 1),
                f"gpu.{gpu.serial}.memory_used_bytes": round(gpu.memory_bytes * busy * 0.9),
                f"gpu.{gpu.serial}.ecc_uncorrected": 0.0,
            }
        return values

    async def accounts(self) -> list[str]:
        return sorted(self._store.now.accounts)

    # changing --------------------------------------------------------------------------------------------------------
    async def provision(self, login: str, ssh_keys: list[str], gpus: list[str], *, tell: PhaseTeller) -> AccountResult:
        reality, home = self._store.now, self.homes / login
        here = {gpu.serial for gpu in self._whole().gpus} - reality.lost.keys()
        missing = [serial for serial in gpus if serial not in here]
        if missing:
            raise HostFailed("gpu_missing", f"there is no GPU {', '.join(missing)}")
        await self.tap.point(Point.BEFORE)
        await tell("account", login)
        await asyncio.to_thread(shells.make_home, home, ssh_keys)
        await self.tap.point(Point.DURING)
        account = Account(login, str(home), ssh_keys, gpus)
        if reality.accounts.get(login) != account:
            effect = f"account changed {login}" if login in reality.accounts else f"account made {login}"
            reality.accounts[login] = account
            reality.used |= dict.fromkeys(gpus, login)
            reality.touched = True
            self._store.save(effect)
        await self.tap.point(Point.AFTER)
        return AccountResult(uid=os.geteuid(), home=str(home), host_keys=[self._host_key()], address="127.0.0.1")

    async def revoke(self, login: str, *, tell: PhaseTeller) -> RevokeResult:
        reality, home = self._store.now, self.homes / login
        existed = login in reality.accounts or home.exists()
        await self.tap.point(Point.BEFORE)
        await tell("processes", login)
        ended = await asyncio.to_thread(shells.end_processes, home)
        await tell("home", str(home))
        await asyncio.to_thread(shells.remove_home, home)
        await self.tap.point(Point.DURING)
        if reality.accounts.pop(login, None) is not None:
            self._store.save(f"account removed {login}")
        await self.tap.point(Point.AFTER)
        processes = len(await asyncio.to_thread(shells.processes_of, home))
        left = Leftovers(processes=processes, files=shells.files_in(home), timers=0, ipc=0, sessions=0)
        if processes or left.files:
            raise HostFailed("leftovers", f"{processes} processes and {left.files} files of {login} are still there")
        return RevokeResult(existed=existed, ended_processes=ended, left=left)

    async def suspend(self, login: str, *, tell: PhaseTeller) -> SuspendResult:
        reality, home = self._store.now, self.homes / login
        account = reality.accounts.get(login)
        await self.tap.point(Point.BEFORE)
        await tell("keys", login)
        if account is not None:
            await asyncio.to_thread(shells.make_home, home, [])
        await tell("processes", login)
        ended = await asyncio.to_thread(shells.end_processes, home)
        await self.tap.point(Point.DURING)
        if account is not None and not account.suspended:
            reality.accounts[login] = msgspec.structs.replace(account, suspended=True)
            self._store.save(f"account suspended {login}")
        await self.tap.point(Point.AFTER)
        left = len(await asyncio.to_thread(shells.processes_of, home))
        if left:
            raise HostFailed("still_running", f"{left} processes of {login} are still there")
        running = Running(processes=0, timers=0, ipc=0, sessions=0)
        return SuspendResult(existed=account is not None, ended_processes=ended, left=running)

    async def drain(self, *, drained: bool) -> None:
        await self.tap.point(Point.BEFORE)
        await self.tap.point(Point.DURING)
        if self._store.now.drained != drained:
            self._store.now.drained = drained
            self._store.save("drained" if drained else "opened")
        await self.tap.point(Point.AFTER)

    async def sanitise(self, serials: list[str], *, reimage: bool, tell: PhaseTeller) -> list[Cleaning]:
        await self.tap.point(Point.BEFORE)
        here = {gpu.serial: gpu for gpu in self._whole().gpus}
        cleanings: list[Cleaning] = []
        for serial in serials:
            await tell("cleaning", serial)
            cleanings += self._clean(serial, here.get(serial))
            await self.tap.point(Point.DURING)
        if reimage:
            await tell("reimage", "")
            cleanings.append(await self._reimage())
        await self.tap.point(Point.AFTER)
        return cleanings

    async def become(self, version: str) -> None:
        """Be another version of the agent, in this host's terms."""
        await self.tap.point(Point.BEFORE)
        await self.tap.point(Point.DURING)
        if self._store.now.agent_version != version:
            self._store.now.agent_version = version
            self._store.save(f"agent became {version}")
        await self.tap.point(Point.AFTER)

    @property
    def agent_version(self) -> str:
        return self._store.now.agent_version

    # faults on tap ---------------------------------------------------------------------------------------------------
    def lose_gpu(self, index: int, xid: int) -> None:
        gpu = self._gpu(index)
        code = f"XID {xid}"
        self._store.now.lost[gpu.serial] = code
        self._store.now.faults.append(
            GpuFault(
                serial=gpu.serial,
                kind=kind_of(xid),
                code=code,
                at=self.now(),
                detail=f"{gpu.address}: GPU has fallen off the bus" if xid == 79 else f"{gpu.address}: driver fault",
            )
        )
        self._store.save(f"lost {gpu.serial} {code}")

    def fail_health(self, index: int | None) -> None:
        self._store.now.unhealthy.append(HOST if index is None else self._gpu(index).serial)
        self._store.save()

    def refuse_reset(self, index: int | None) -> None:
        gpus = self._whole().gpus if index is None else [self._gpu(index)]
        self._store.now.stubborn += [gpu.serial for gpu in gpus]
        self._store.save()

    def refuse_image(self) -> None:
        self._store.now.image_refused = True
        self._store.save()

    def use_gpu(self, index: int | None, percent: float) -> None:
        """Have somebody compute on a GPU, or on all of them, from now on."""
        for gpu in self._whole().gpus if index is None else [self._gpu(index)]:
            self._store.now.busy[gpu.serial] = percent
        self._store.save()

    def skew_clock(self, seconds: float) -> None:
        self._store.now.skew_seconds = seconds
        self._store.save()

    def clear(self) -> None:
        self.tap.clear()
        reality = self._store.now
        reality.lost.clear()
        reality.unhealthy.clear()
        reality.stubborn.clear()
        reality.image_refused = False
        reality.busy.clear()
        reality.skew_seconds = 0.0
        self._store.save()

    def leave_running(self, login: str, seconds: float) -> int:
        """A process of an account that nobody waits for; its number."""
        account = self._store.now.accounts.get(login)
        if account is None or account.suspended or self._store.now.drained:
            raise HostFailed("login_refused", f"{login} cannot log in here")
        return shells.start_shell(self.homes / login, "-c", f"exec sleep {seconds:.0f}").pid

    def status(self, node_id: str) -> NodeStatus:
        reality = self._store.now
        on_disk = {
            "lose_gpu": reality.lost,
            "fail_health": reality.unhealthy,
            "refuse_reset": reality.stubborn,
            "refuse_image": reality.image_refused,
            "gpu_use": reality.busy,
            "skew_clock": reality.skew_seconds,
        }
        gpus = self._whole().gpus
        return NodeStatus(
            node=self.name,
            node_id=node_id,
            gpus=len(gpus),
            accounts=len(reality.accounts),
            lost_gpus=[gpu.index for gpu in gpus if gpu.serial in reality.lost],
            faults=sorted([name for name, on in on_disk.items() if on] + self.tap.names()),
        )

    # parts -----------------------------------------------------------------------------------------------------------
    def _whole(self) -> Topology:
        reality = self._store.now
        return build(self._description, hostname=self.name, seed=reality.seed, boot_id=reality.boot_id)

    def _gpu(self, index: int) -> Gpu:
        gpus = self._whole().gpus
        if index >= len(gpus):
            raise HostFailed("gpu_missing", f"{self.name} has GPUs 0 to {len(gpus) - 1}")
        return gpus[index]

    def _gpu_health(self, serial: str, gpu: Gpu | None, *, load: bool) -> GpuHealth:
        reality = self._store.now
        why_lost = "no such GPU" if gpu is None else reality.lost.get(serial, "")
        failing = serial in reality.unhealthy
        checks = [Check(name="present", passed=not why_lost, detail=why_lost)]
        if not why_lost:
            checks.append(Check(name="memory", passed=not failing, detail="fails on request" if failing else ""))
            if load:
                checks.append(Check(name="load", passed=not failing))
        return GpuHealth(
            serial=serial,
            healthy=all(check.passed for check in checks),
            checks=checks,
            temperature_c=None if why_lost else 71.0 if load else 36.0,
            power_w=None if why_lost else 640.0 if load else 80.0,
        )

    def _held(self, serial: str) -> bool:
        account = self._store.now.accounts.get(self._store.now.used.get(serial, ""))
        return account is not None and serial in account.gpus

    def _clean(self, serial: str, gpu: Gpu | None) -> list[Cleaning]:
        reality, at = self._store.now, self.now()

        def cleaning(method: CleaningMethod, evidence: str, *, target: str = serial, clean: bool = True) -> Cleaning:
            return Cleaning(target=target, method=method, clean=clean, evidence=evidence, at=at)

        if gpu is None or serial in reality.lost:
            why = reality.lost.get(serial, "no such GPU")
            return [cleaning(CleaningMethod.RESET, f"not there: {why}", clean=False)]
        if serial in reality.stubborn:
            return [cleaning(CleaningMethod.RESET, "the reset was refused", clean=False)]
        if self._held(serial):
            raise HostFailed("gpu_in_use", f"{reality.used[serial]} still has {serial}")
        if reality.used.pop(serial, None) is not None:
            self._store.save(f"cleaned {serial}")
        found = [
            cleaning(CleaningMethod.MEMORY_CLEARED, f"{gpu.memory_bytes} bytes read back as zero"),
            cleaning(CleaningMethod.RESET, "function-level reset; driver reloaded"),
        ]
        if gpu.nvme:
            found.append(cleaning(CleaningMethod.DISK_ERASED, "crypto erase; sampled blocks are zero", target=gpu.nvme))
        return found

    async def _reimage(self) -> Cleaning:
        """The system anew: another boot, another SSH host key, no home and no process of anybody. Asked for again with
        nobody in between, it is new already."""
        reality = self._store.now
        if reality.accounts:
            raise HostFailed("account_in_use", f"not under the hands of {', '.join(sorted(reality.accounts))[:500]}")
        if reality.image_refused:
            return self._imaged("the installer failed; the old system is still there", clean=False)
        swept = await asyncio.to_thread(shells.sweep, self.homes)
        if reality.touched:
            reality.image += 1
            reality.boot_id, reality.host_key, reality.touched = str(new_id()), "", False
            self._store.save(f"installed image {reality.image}")
        left = shells.files_in(self.homes) if self.homes.exists() else 0
        boot = f"image {reality.image} installed; boot {reality.boot_id}; {swept} homes swept; host key made anew"
        return self._imaged(f"{boot}; {left} files left" if left else boot, clean=not left)

    def _imaged(self, evidence: str, *, clean: bool) -> Cleaning:
        return Cleaning(target=self.name, method=CleaningMethod.REIMAGED, clean=clean, at=self.now(), evidence=evidence)

    def _host_key(self) -> str:
        if not self._store.now.host_key:
            key = Ed25519PrivateKey.generate().public_key()
            self._store.now.host_key = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
            self._store.save()
        return self._store.now.host_key
