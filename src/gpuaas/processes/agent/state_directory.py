"""The directory an agent keeps itself in: its key, its trust, what it was told and what it has yet to tell.

Always holds: the directory is 0700 and every file 0600, or nothing in it is used; a file is replaced whole and is on
the disk when `write` returns; one agent at a time holds the directory."""

import contextlib
import fcntl
import os
import stat
from pathlib import Path

from gpuaas.processes.agent.errors import AgentError

MAX_BYTES = 64 * 1024 * 1024
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class StateDirectory:
    """Opened by `make` (may be created) or `open` (must exist)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    @classmethod
    def make(cls, path: Path) -> "StateDirectory":
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise AgentError(f"cannot make the state directory {path}: {error.strerror}") from None
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> "StateDirectory":
        try:
            found = path.stat()
        except OSError as error:
            raise AgentError(f"cannot use the state directory {path}: {error.strerror}") from None
        if not stat.S_ISDIR(found.st_mode):
            raise AgentError(f"{path} is not a directory")
        _check_ours(path, found, 0o700)
        return cls(path)

    def lock(self) -> None:
        """Hold the directory until the process ends or `unlock`."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise AgentError(f"another agent runs with the state directory {self.path}") from None
        self._lock = descriptor

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def folder(self, name: str) -> Path:
        path = self.path / name
        path.mkdir(mode=0o700, exist_ok=True)
        _check_ours(path, path.stat(), 0o700)
        return path

    def read(self, name: str) -> bytes | None:
        """What the file holds; None when there is none."""
        path = self.path / name
        try:
            with path.open("rb") as file:
                check_private(path, os.fstat(file.fileno()))
                return file.read(MAX_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise AgentError(f"cannot read {path}: {error.strerror}") from None

    def write(self, name: str, content: bytes) -> None:
        path = self.path / name
        try:
            draft = path.with_name(f".{path.name}.{os.getpid()}")
            with contextlib.suppress(FileNotFoundError):
                draft.unlink()
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(descriptor)
            draft.replace(path)
            sync_folder(path.parent)
        except OSError as error:
            raise AgentError(f"cannot write {path}: {error.strerror}") from None

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self.path / name).unlink()
            sync_folder(self.path)


def check_private(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise AgentError(f"{path} is not a file")
    _check_ours(path, found, 0o600)


def sync_folder(path: Path) -> None:
    """A rename is on the disk only when its directory is."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_ours(path: Path, found: os.stat_result, wanted: int) -> None:
    if found.st_mode & _OTHERS:
        raise AgentError(
            f"{path} is open to others (mode {stat.S_IMODE(found.st_mode):04o}): chmod {wanted:o} {path}, "
            "and enrol again if somebody may have read it"
        )
    if found.st_uid != os.geteuid():
        raise AgentError(f"{path} belongs to another user (uid {found.st_uid})")
