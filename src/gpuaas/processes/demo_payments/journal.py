"""The provider's one file: a line for each change, on the disk before the change is answered.

Always holds: a line that was written is never lost by a kill; one that was cut off by it never counted. One process at
a time has the file. At the start it is written anew when much of it is history."""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

FILE = "provider.jsonl"
LARGEST = 200_000_000


class JournalRefused(Exception):
    """The file cannot be used: another process has it, or it is damaged. One line."""


class Journal:
    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = directory / FILE
        self._lock = os.open(directory / "provider.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise JournalRefused(f"{directory} is in use by another process") from None
        self._file = self._open(self.path)

    def read(self, take: Callable[[bytes], None]) -> int:
        """Every line there is, in order; the number of bytes. What a kill cut off is taken away."""
        whole = 0
        for line in self._lines():
            take(line)
            whole += len(line) + 1
        os.ftruncate(self._file, whole)
        os.lseek(self._file, 0, os.SEEK_END)
        return whole

    def append(self, line: bytes) -> None:
        """On the disk when it returns; OSError, and nothing of it, when that cannot be."""
        end = os.lseek(self._file, 0, os.SEEK_CUR)
        if end > LARGEST:
            raise OSError("the demo's file is full: start over with an empty folder")
        try:
            _write_all(self._file, line + b"\n")
            os.fdatasync(self._file)
        except OSError:
            os.ftruncate(self._file, end)
            os.lseek(self._file, end, os.SEEK_SET)
            raise

    def rewrite(self, lines: Iterable[bytes]) -> None:
        """The same truth in fewer lines, all of them or none."""
        draft = self.path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        file = self._open(draft)
        try:
            for line in lines:
                _write_all(file, line + b"\n")
            os.fsync(file)
            draft.replace(self.path)
            _sync(self.path.parent)
        except BaseException:
            os.close(file)
            raise
        os.close(self._file)
        self._file = file

    def close(self) -> None:
        os.close(self._file)
        os.close(self._lock)

    def _lines(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line[:-1]

    @staticmethod
    def _open(path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _sync(directory: Path) -> None:
    """A new name is on the disk, too."""
    opened = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
