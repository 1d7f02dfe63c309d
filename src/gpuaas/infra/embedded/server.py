"""The life an embedded server leads, whichever server it is.

While an object holds its server, nobody else can start one on the same directory. A start first ends
whatever an earlier, killed start left behind there; recovery never depends on how that one ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from gpuaas.infra.embedded.account import server_account
from gpuaas.infra.embedded.binaries import SHARED_DIRECTORY
from gpuaas.infra.embedded.child import Escalation, end_child, spawn
from gpuaas.infra.embedded.errors import EmbeddedError
from gpuaas.infra.embedded.home import make_data_directory, make_home, remove_home
from gpuaas.infra.embedded.lock import ExclusiveLock
from gpuaas.infra.embedded.logs import last_lines, open_log
from gpuaas.infra.embedded.secret_file import SecretFile

_READY_TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.01


class EmbeddedServer(ABC):
    """A server in DATA/<name>: `prepare`, `launch`, `wait_ready`, then `stop` or `kill`, and again."""

    name: ClassVar[str]
    stopping: ClassVar[Escalation]
    parent_death: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, data_dir: Path, *, durable: bool = True, shared: Path = SHARED_DIRECTORY) -> None:
        self._data = make_data_directory(data_dir)
        self._durable = durable
        self._shared = shared
        self._secrets = SecretFile(self._data / "secrets.json")
        self._account = server_account()
        self._lock: ExclusiveLock | None = None
        self._home: Path | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self.log = self._data / "logs" / f"{self.name}.log"

    @abstractmethod
    def _make(self, home: Path) -> None:
        """Everything the server needs before it runs."""

    @abstractmethod
    def _command(self, home: Path) -> Sequence[str]:
        """The program and its arguments."""

    @abstractmethod
    def _end_leftovers(self, home: Path) -> None:
        """End the processes an earlier start left on this directory; the lock is ours."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether our child accepts connections now."""

    def prepare(self) -> None:
        """Everything before the server runs; may take seconds the first time. Any thread may call it."""
        self._home = make_home(self._data, self.name, self._account, self._shared)
        self._lock = ExclusiveLock(self._home / "lock", f"{self.name} in {self._data}")
        self._lock.acquire()
        try:
            self.log = open_log(self._data / "logs", self.name)
            self._make(self._home)
        except BaseException:
            self._release()
            raise

    def launch(self) -> subprocess.Popen[bytes]:
        """Run the prepared server, again after a crash too; it is not ready yet."""
        self._end_leftovers(self.home)
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._child = spawn(
            self._command(self.home),
            log=self.log,
            cwd=Path("/"),
            env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
            account=self._account,
            parent_death=self.parent_death,
        )
        return self._child

    def wait_ready(self) -> None:
        """Return once it accepts connections; say why it does not. Any thread may call it."""
        child, give_up_at = self._child, time.monotonic() + _READY_TIMEOUT_SECONDS
        while not self.is_ready():
            if child is None or child.poll() is not None:
                said = "; ".join(last_lines(self.log, 3, after=self._log_start)) or "it said nothing"
                raise EmbeddedError(f"{self.name} did not start: {said}")
            if time.monotonic() > give_up_at:
                raise EmbeddedError(f"{self.name} is not ready after {_READY_TIMEOUT_SECONDS:.0f} s: see {self.log}")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Finish cleanly; the next start needs no recovery. Nothing happens if it does not run."""
        if self._child is not None:
            end_child(self._child, self.stopping)
            self._child = None
        self._release()

    def kill(self) -> None:
        """End it as a crash would, and wait until nothing of it runs; data stays as it was."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None
            self._end_leftovers(self.home)
        self._release()

    def destroy(self) -> None:
        """Kill it and delete its data."""
        self.kill()
        remove_home(self._data, self.name)

    @property
    def home(self) -> Path:
        """The directory it writes to, once prepared."""
        if self._home is None:
            raise EmbeddedError(f"{self.name} has no directory before it is prepared")
        return self._home

    @property
    def pid(self) -> int | None:
        """The server's process while it runs."""
        return self._child.pid if self._child is not None and self._child.poll() is None else None

    def _run(self) -> None:
        self.prepare()
        try:
            self.launch()
            self.wait_ready()
        except BaseException:
            self.kill()
            raise

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
