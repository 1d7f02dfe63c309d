"""How a GPU is put under load and its memory cleared, with programs of their own: DCGM's diagnosis where it is
installed, else the exercise that is shipped; or what the operator names.

Always holds: a program that hangs is left behind at its time limit; what was not tried has not passed, and the answer
says exactly what is missing."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gpuaas.contracts.tasks.topology import Check, Gpu
from gpuaas.infra.hosts.linux import gpu_exercise
from gpuaas.infra.hosts.linux.command import PATH
from gpuaas.infra.hosts.linux.nvml import Card
from gpuaas.ports.host import HostFailed

LIBRARY = "libcuda.so.1"
EXERCISE = Path(str(gpu_exercise.__file__))
LOAD_SECONDS = 20.0
LIMIT_SECONDS = 270.0
KILL_SECONDS = 5.0
MOST_OUTPUT = 4 << 20
AUTO, MEMORY, DCGM, NVBANDWIDTH = "auto", "memory", "dcgm", "nvbandwidth"


@dataclass(frozen=True)
class Proofs:
    """`load_test`: auto, memory, dcgm, nvbandwidth, or the path of a program that is run with a GPU's PCI address and
    serial number and ends with 0 when the GPU has passed."""

    load_test: str = AUTO
    library: str = LIBRARY
    path: str = PATH
    """Where programs are looked for."""
    load_seconds: float = LOAD_SECONDS
    limit_seconds: float = LIMIT_SECONDS


@dataclass(frozen=True)
class _Ended:
    code: int
    output: str


class _Told(msgspec.Struct):
    ok: bool
    detail: str


class Prover:
    def __init__(self, proofs: Proofs) -> None:
        self._proofs = proofs

    async def load(self, gpu: Gpu, card: Card | None) -> Check:
        """Whether it does its work under load."""
        try:
            told = [await self._run(test, gpu, card) for test in self._tests(gpu)]
        except HostFailed as failure:
            return Check(name="load", passed=False, detail=str(failure)[:500])
        return Check(name="load", passed=True, detail="; ".join(told)[:500])

    async def clear(self, gpu: Gpu) -> str:
        """The evidence that its memory is zero; HostFailed without."""
        if why := _why_not(gpu):
            raise HostFailed("cannot_clear", f"its memory cannot be cleared: {why}")
        return await self._exercise(gpu, "clear")

    def _tests(self, gpu: Gpu) -> list[str]:
        chosen = self._proofs.load_test
        if chosen not in (AUTO, DCGM, NVBANDWIDTH, MEMORY):
            return [chosen]
        if why := _why_not(gpu):
            raise HostFailed("cannot_load", f"it cannot be put under load: {why}")
        if chosen != AUTO:
            return [chosen]
        if self._which("dcgmi"):
            return [DCGM]
        return [MEMORY, NVBANDWIDTH] if self._which("nvbandwidth") else [MEMORY]

    async def _run(self, test: str, gpu: Gpu, card: Card | None) -> str:
        if test == MEMORY:
            return await self._exercise(gpu, "load")
        if test == DCGM:
            return await self._diagnosis(card)
        if test == NVBANDWIDTH:
            return await self._bandwidth(gpu, card)
        ended = await self._program([test, gpu.address, gpu.serial])
        if ended.code != 0:
            raise HostFailed("load_failed", f"{test} ended with {ended.code}: {_last(ended.output)}")
        return f"{Path(test).name}: {_last(ended.output)}"

    async def _exercise(self, gpu: Gpu, mode: str) -> str:
        seconds = str(self._proofs.load_seconds)
        argv = [sys.executable, "-I", str(EXERCISE), self._proofs.library, gpu.address, mode, seconds]
        ended = await self._program(argv)
        try:
            told = msgspec.json.decode(ended.output.strip().splitlines()[-1], type=_Told)
        except (IndexError, msgspec.MsgspecError):
            raise HostFailed("load_failed", f"the exercise ended with {ended.code} without an answer") from None
        if not told.ok or ended.code != 0:
            raise HostFailed("load_failed", told.detail)
        return told.detail

    async def _diagnosis(self, card: Card | None) -> str:
        """`dcgmi diag -r 2`, which takes about two minutes; any test that fails fails the GPU."""
        if card is None or card.index is None:
            raise HostFailed("load_failed", "dcgmi needs the number NVML has for it, and NVML does not tell")
        program = self._require("dcgmi")
        ended = await self._program([program, "diag", "-r", "2", "-i", str(card.index), "-j"])
        passed, failed = _diagnosed(ended.output)
        if ended.code != 0 or failed or not passed:
            words = f"{', '.join(failed)} failed" if failed else _last(ended.output)
            raise HostFailed("load_failed", f"dcgmi diag ended with {ended.code}: {words}")
        return f"dcgmi diag -r 2: {passed} tests passed"

    async def _bandwidth(self, gpu: Gpu, card: Card | None) -> str:
        if card is None or not card.uuid:
            raise HostFailed("load_failed", "nvbandwidth needs the id NVML has for it, and NVML does not tell")
        tests = ["host_to_device_memcpy_ce", "device_to_host_memcpy_ce"]
        program = self._require("nvbandwidth")
        ended = await self._program([program, "-t", *tests], {"CUDA_VISIBLE_DEVICES": card.uuid})
        if ended.code != 0 or "ERROR" in ended.output:
            raise HostFailed("load_failed", f"nvbandwidth ended with {ended.code}: {_last(ended.output)}")
        return "nvbandwidth passed both ways"

    def _which(self, program: str) -> str | None:
        return shutil.which(program, path=self._proofs.path)

    def _require(self, program: str) -> str:
        found = self._which(program)
        if found is None:
            raise HostFailed("load_failed", f"{program} is not installed")
        return found

    async def _program(self, argv: Sequence[str], more: dict[str, str] | None = None) -> _Ended:
        environment = {"PATH": self._proofs.path, "LC_ALL": "C", "HOME": "/nonexistent", **(more or {})}
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise HostFailed("load_failed", f"{argv[0]} could not be started: {error.strerror}") from None
        try:
            async with asyncio.timeout(self._proofs.limit_seconds):
                output = await _read(process)
                return _Ended(await process.wait(), output)
        except TimeoutError:
            limit = f"{self._proofs.limit_seconds:.0f} s"
            raise HostFailed("load_failed", f"{Path(argv[0]).name} did not end within {limit}") from None
        finally:
            await _end(process)


async def _read(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None  # noqa: S101 # asked for above
    kept = b""
    while piece := await process.stdout.read(65_536):
        kept = (kept + piece)[-MOST_OUTPUT:]
    return kept.decode(errors="replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    """One that cannot be killed hangs in the driver: it is left to the kernel, not waited for."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(KILL_SECONDS):
            await process.wait()


def _why_not(gpu: Gpu) -> str:
    """Why no program of the host can use the GPU; empty: one can."""
    if gpu.driver == "vfio-pci":
        return "it is bound to vfio-pci for a virtual machine, and can be tried inside of one only"
    if gpu.vendor != "nvidia":
        return f"nothing is shipped for GPUs of {gpu.vendor}: name a program for the load test"
    return "" if gpu.driver == "nvidia" else f"NVIDIA's driver does not have it ({gpu.driver or 'no driver has'})"


def _diagnosed(output: str) -> tuple[int, list[str]]:
    """How many results passed, and the names of tests that did not. DCGM 3 and 4 nest differently; names and statuses
    are the same."""
    try:
        told = msgspec.json.decode(output[output.index("{") :])
    except (ValueError, msgspec.MsgspecError):
        return 0, []
    passed, failed = 0, []
    waiting: list[tuple[str, object]] = [("", told)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, list):
            waiting += [(name, inner) for inner in value]
        elif isinstance(value, dict):
            name = str(value.get("name", name))
            status = str(value.get("status", "")).lower()
            passed += status == "pass"
            failed += [name[:60]] if status in ("fail", "error") else []
            waiting += [(name, inner) for inner in value.values()]
    return passed, sorted(set(failed))


def _last(output: str) -> str:
    lines = output.strip().splitlines()
    return "".join(letter if letter.isprintable() else "?" for letter in (lines[-1] if lines else "no output"))[:200]
