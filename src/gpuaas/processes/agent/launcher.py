"""`gpuaas agent launch`: runs the current version of the agent, tries a new one, and goes back when it is not healthy
in time. Small and boring on purpose: it is the part that cannot be replaced by an update."""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

import msgspec

from gpuaas.kit import clock, log
from gpuaas.processes.agent.backoff import Backoff
from gpuaas.processes.agent.state_directory import StateDirectory
from gpuaas.processes.agent.updates import (
    CURRENT,
    PROGRAM,
    Stage,
    Update,
    current,
    read_update,
    switch,
    write_update,
)

POLL_SECONDS = 0.1
STOP_SECONDS = 15.0
MOST_TRIES = 2
STEADY_SECONDS = 60.0


class Launcher:
    def __init__(self, state: StateDirectory, arguments: Sequence[str]) -> None:
        self._state = state
        self._arguments = list(arguments)
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = False

    def run(self) -> int:
        """Until told to stop; the exit code of the last agent."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        backoff, code = Backoff(longest=30.0), 0
        while not self._stopping:
            update = read_update(self._state)
            began = clock.monotonic()
            if update is not None and update.stage is Stage.TRYING:
                code = self._try(update)
            else:
                code = self._start().wait()
            if self._waiting_update():
                continue
            if clock.monotonic() - began > STEADY_SECONDS:
                backoff.reset()
            log.get_logger().warning("the agent ended", code=code)
            self._rest(backoff.next())
        return 0 if code in (0, -signal.SIGTERM) else abs(code)

    def _waiting_update(self) -> bool:
        update = read_update(self._state)
        return update is not None and update.stage is Stage.TRYING

    def _try(self, update: Update) -> int:
        """Run the new version; it stays if it says it is healthy in time, else the one before comes back."""
        update = msgspec.structs.replace(update, tries=update.tries + 1)
        write_update(self._state, update)
        if update.tries > MOST_TRIES:
            self._roll_back(update, "it was interrupted too often while it was tried")
            return 0
        switch(self._state, update.to)
        try:
            child = self._start()
        except OSError as error:
            self._roll_back(update, f"it cannot be started: {error.strerror}")
            return 0
        until = clock.monotonic() + update.healthy_within_seconds
        while not self._stopping:
            found = read_update(self._state)
            if found is None or found.stage is Stage.HEALTHY:
                log.get_logger().info("the new version is healthy", version=update.version)
                return child.wait()
            code = child.poll()
            if code is not None:
                self._roll_back(update, f"it ended with {code} before it was healthy")
                return code
            if clock.monotonic() > until:
                self._end(child)
                self._roll_back(update, f"it was not healthy within {update.healthy_within_seconds} s")
                return child.returncode
            time.sleep(POLL_SECONDS)
        return child.wait()

    def _roll_back(self, update: Update, reason: str) -> None:
        log.get_logger().error("rolled back", version=update.version, why=reason)
        switch(self._state, update.back_to)
        write_update(self._state, msgspec.structs.replace(update, stage=Stage.ROLLED_BACK, reason=reason))

    def _start(self) -> subprocess.Popen[bytes]:
        folder = current(self._state)
        program = [str(self._state.path / CURRENT / PROGRAM)] if folder else [sys.executable, "-m", "gpuaas", "agent"]
        argv = [*program, "run", "--state-dir", str(self._state.path), "--launched", folder or "-", *self._arguments]
        self._child = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        return self._child

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        child.terminate()
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _rest(self, seconds: float) -> None:
        until = clock.monotonic() + seconds
        while not self._stopping and clock.monotonic() < until:
            time.sleep(POLL_SECONDS)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()
