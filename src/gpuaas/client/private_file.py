"""Files that hold credentials and settings of a person: written whole or not at all, readable by their owner only, and
refused when others could have read them."""

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from gpuaas.client.errors import FileRefused
from gpuaas.kit import clock

MAX_BYTES = 1_000_000
LOCK_SECONDS = 30.0


def read(path: Path) -> bytes | None:
    """What the file holds; None when there is none."""
    try:
        with path.open("rb") as file:
            check_private(path, os.fstat(file.fileno()))
            return file.read(MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileRefused(f"Cannot read {path}: {error.strerror}.") from error


def check_private(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise FileRefused(f"{path} is not a file.")
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise FileRefused(
            f"{path} can be read by others (mode {stat.S_IMODE(found.st_mode):04o}), so what is in it may be known to "
            f"them. Run chmod 600 {path}; if it holds a credential, log out and in again."
        )


def write(path: Path, content: bytes) -> None:
    """Replace the file in one step."""
    try:
        make_private_directory(path.parent)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        fresh.replace(path)
    except OSError as error:
        raise FileRefused(f"Cannot write {path}: {error.strerror}.") from error


def delete(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def make_private_directory(path: Path) -> None:
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Alone among all processes of this machine, while the block runs. The lock is a file beside `path`."""
    try:
        make_private_directory(path.parent)
        descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise FileRefused(f"Cannot lock {path}: {error.strerror}.") from error
    try:
        _take(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path) -> None:
    until = clock.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.monotonic() > until:
                raise FileRefused(f"Another gpuaas has held {path} for {LOCK_SECONDS:.0f} s. End it.") from None
            time.sleep(0.02)
        else:
            return
