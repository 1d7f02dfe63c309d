"""Keeping parts alive: each part that ends without being asked to is started again, with back-off.

A part that ends too often within a minute is given up, and with it the whole run. Parts are launched
on the main thread only, so that the kernel tells them when we die.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gpuaas.infra.embedded.child import Escalation
from gpuaas.infra.embedded.logs import last_lines
from gpuaas.processes.up.errors import UpError

_PROBE_SECONDS = 0.05
_QUOTED_LINES = 8


class Part(Protocol):
    """One process to keep: an embedded server or a program of ours."""

    @property
    def name(self) -> str: ...
    @property
    def log(self) -> Path: ...
    @property
    def stopping(self) -> Escalation: ...

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the process; it need not be ready."""

    def is_ready(self) -> bool:
        """Whether it does its work now; may take a second or two, is called on another thread."""


@dataclass(frozen=True)
class Patience:
    """How much is borne before giving up."""

    deaths: int = 6
    window_seconds: float = 60.0
    first_pause_seconds: float = 0.25
    longest_pause_seconds: float = 8.0
    ready_seconds: float = 90.0

    def pause_after(self, deaths: int) -> float:
        """How long to wait before the next start, after so many deaths in the window."""
        return float(min(self.first_pause_seconds * 2 ** (deaths - 1), self.longest_pause_seconds))


@dataclass
class _Kept:
    part: Part
    child: subprocess.Popen[bytes] | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    deaths: deque[float] = field(default_factory=deque)
    stopping: bool = False
    task: asyncio.Task[None] | None = None


class Supervisor:
    """Parts from `start` to `stop`; `failure` is done with the reason when one had to be given up."""

    def __init__(
        self,
        tell: Callable[[str], None],
        changed: Callable[[], None] = lambda: None,
        patience: Patience | None = None,
    ) -> None:
        self._tell = tell
        self._changed = changed
        self._patience = patience or Patience()
        self._kept: dict[str, _Kept] = {}
        self.failure: asyncio.Future[UpError] = asyncio.get_running_loop().create_future()

    def processes(self) -> dict[str, int]:
        """The process number of each part that runs now."""
        return {
            name: kept.child.pid
            for name, kept in self._kept.items()
            if kept.child is not None and kept.child.returncode is None
        }

    async def start(self, part: Part) -> float:
        """Run a part and keep it running; returns once it was ready, with the seconds that took."""
        began = time.monotonic()
        kept = self._kept[part.name] = _Kept(part)
        kept.task = asyncio.create_task(self._keep(kept), name=f"keep {part.name}")
        ready = asyncio.create_task(kept.ready.wait())
        either: set[asyncio.Future[Any]] = {ready, self.failure}
        try:
            await asyncio.wait(either, timeout=self._patience.ready_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if self.failure.done():
            raise self.failure.result()
        if not kept.ready.is_set():
            raise self._gave_up(part, f"is not ready after {self._patience.ready_seconds:.0f} s")
        return time.monotonic() - began

    async def stop(self, names: Sequence[str], force: asyncio.Event) -> None:
        """End the named parts one after the other; all of what is left at once when forced."""
        for name in names:
            kept = self._kept.get(name)
            if kept is not None:
                await self._stop_one(kept, force)

    async def _keep(self, kept: _Kept) -> None:
        part = kept.part
        try:
            while not kept.stopping:
                kept.child = part.launch()
                self._changed()
                probe = asyncio.create_task(self._probe(kept, kept.child, again=bool(kept.deaths)))
                try:
                    code = await exited(kept.child)
                finally:
                    probe.cancel()
                if not kept.stopping:
                    await self._mourn(kept, code)
        except UpError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run ends with it
            self._fail(UpError(f"{part.name} cannot be started: {error}"))

    async def _mourn(self, kept: _Kept, code: int) -> None:
        """Wait as long as its record of deaths demands; give up when there were too many."""
        now, patience = time.monotonic(), self._patience
        kept.deaths.append(now)
        while kept.deaths[0] < now - patience.window_seconds:
            kept.deaths.popleft()
        if len(kept.deaths) >= patience.deaths:
            raise self._gave_up(kept.part, f"ended {len(kept.deaths)} times within a minute ({_ending(code)})")
        pause = patience.pause_after(len(kept.deaths))
        self._tell(f"{kept.part.name} ended ({_ending(code)}); starting it again in {pause:g} s")
        await asyncio.sleep(pause)

    async def _probe(self, kept: _Kept, child: subprocess.Popen[bytes], *, again: bool) -> None:
        began = time.monotonic()
        while not await asyncio.to_thread(kept.part.is_ready):  # noqa: ASYNC110 - another process knows
            await asyncio.sleep(_PROBE_SECONDS)
        if child.returncode is None:
            kept.ready.set()
            if again:
                self._tell(f"{kept.part.name} is ready again after {time.monotonic() - began:.1f} s")

    async def _stop_one(self, kept: _Kept, force: asyncio.Event) -> None:
        kept.stopping = True
        child = kept.child
        if child is not None and child.returncode is None:
            gone = asyncio.create_task(exited(child))
            for number, seconds in kept.part.stopping:
                _signal(child, signal.SIGKILL if force.is_set() else number)
                forced = asyncio.create_task(force.wait())
                waiting = {gone} if force.is_set() else {gone, forced}
                await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                forced.cancel()
                if gone.done():
                    break
            if force.is_set() and not gone.done():
                _signal(child, signal.SIGKILL)
                await gone
        if kept.task is not None:
            kept.task.cancel()
            await asyncio.wait({kept.task})

    def _fail(self, error: UpError) -> None:
        if not self.failure.done():
            self.failure.set_result(error)

    def _gave_up(self, part: Part, why: str) -> UpError:
        return UpError(f"{part.name} {why}; {part.log} ends with:", last_lines(part.log, _QUOTED_LINES))


async def exited(child: subprocess.Popen[bytes]) -> int:
    """The child's exit code, once it has one."""
    if child.poll() is None:
        loop = asyncio.get_running_loop()
        handle = os.pidfd_open(child.pid)
        gone = asyncio.Event()
        loop.add_reader(handle, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(handle)
            os.close(handle)
    return child.wait()


def _signal(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if child.poll() is None:
        child.send_signal(number)


def _ending(code: int) -> str:
    return f"exit {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
