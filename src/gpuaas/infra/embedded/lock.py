"""One holder per directory: a kernel lock that dies with its process, so it can never be stale."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType

from gpuaas.infra.embedded.errors import EmbeddedError

_PAUSE_SECONDS = 0.02


class ExclusiveLock:
    """Held from `acquire` to `release` or the end of the process; children do not inherit it."""

    def __init__(self, path: Path, what: str, *, wait_seconds: float = 0) -> None:
        self._path = path
        self._what = what
        self._wait_seconds = wait_seconds
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock, or say in one line who has it."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        give_up_at = time.monotonic() + self._wait_seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= give_up_at:
                    holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
                    os.close(descriptor)
                    by = f" (process {holder})" if holder else ""
                    raise EmbeddedError(f"{self._what} is in use by another start{by}") from None
                time.sleep(_PAUSE_SECONDS)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> ExclusiveLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
