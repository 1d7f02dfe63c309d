"""Files of a uid outside of its home: wherever a stranger could write on this host.

Which directories are open to strangers does not depend on the stranger, so it is surveyed once and kept for minutes;
each search walks only from there. No symbolic link is followed; a directory nobody could enter is not searched."""

import os
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.infra.hosts.linux.mounts import read_mounts
from gpuaas.infra.hosts.linux.removal import remove_entry
from gpuaas.kit import clock
from gpuaas.ports.host import HostFailed

SURVEY_KEPT_SECONDS = 600.0
SURVEY_SECONDS = 60.0
MAX_SEARCHED = 5_000_000
MAX_DEPTH = 128
"""Deeper directories belong to an owner who nests on purpose; they go with him."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class FilesOfUid:
    layout: Layout
    _open: list[Path] = field(default_factory=list)
    _surveyed_at: float = -2 * SURVEY_KEPT_SECONDS
    _surveying: threading.Lock = field(default_factory=threading.Lock)

    def remove(self, uid: int) -> int:
        """Remove every entry of the uid that is found; how many."""
        count = 0
        for directory, name in self._search(uid):
            remove_entry(directory, name)
            count += 1
        return count

    def count(self, uid: int) -> int:
        return sum(1 for _ in self._search(uid))

    def places(self) -> list[Path]:
        """Known places, and every other directory of a local file system that anybody may write to."""
        with self._surveying:
            if clock.monotonic() - self._surveyed_at > SURVEY_KEPT_SECONDS:
                self._open = _survey(self.layout)
                self._surveyed_at = clock.monotonic()
        known = [place for place in self.layout.shared_places() if place.is_dir() and not place.is_symlink()]
        return known + [place for place in self._open if place not in known]

    def _search(self, uid: int) -> Iterator[tuple[int, str]]:
        budget = [MAX_SEARCHED]
        for place in self.places():
            try:
                top = os.open(place, _DIRECTORY)
            except (FileNotFoundError, NotADirectoryError):
                continue
            try:
                yield from _search_below(top, uid, budget, MAX_DEPTH)
            finally:
                os.close(top)


def _search_below(directory: int, uid: int, budget: list[int], depth: int) -> Iterator[tuple[int, str]]:
    device = os.fstat(directory).st_dev
    with os.scandir(directory) as entries:
        found = [entry.name for entry in entries]
    budget[0] -= len(found)
    if budget[0] < 0:
        raise HostFailed("too_many_files", f"more than {MAX_SEARCHED} files where tenants may write")
    for name in found:
        try:
            status = os.lstat(name, dir_fd=directory)
            if status.st_uid == uid:
                yield directory, name
            elif stat.S_ISDIR(status.st_mode) and status.st_dev == device and depth and _enterable(status, uid):
                inner = os.open(name, _DIRECTORY, dir_fd=directory)
                try:
                    yield from _search_below(inner, uid, budget, depth - 1)
                finally:
                    os.close(inner)
        except (FileNotFoundError, NotADirectoryError):
            continue  # gone meanwhile, or it became something else


def _enterable(status: os.stat_result, uid: int) -> bool:
    """Spools are closed to all but set-id programs, which leave files of the uid there."""
    return bool(status.st_mode & 0o001 or status.st_gid == uid or status.st_mode & stat.S_ISVTX)


def _survey(layout: Layout) -> list[Path]:
    until, found = clock.monotonic() + SURVEY_SECONDS, set[Path]()
    for mount in read_mounts(layout):
        if mount.local and mount.writable and _reachable(mount.point):
            found.update(_open_below(mount.point, until))
    return sorted(found)


def _reachable(path: Path) -> bool:
    try:
        return all(step.stat().st_mode & 0o001 for step in (path, *path.parents))
    except OSError:
        return False


def _open_below(top: Path, until: float) -> Iterator[Path]:
    """Directories anybody may write to; what is below one of them is found when it is searched."""
    try:
        device = top.stat().st_dev
    except OSError:
        return
    waiting = [str(top)]
    while waiting:
        if clock.monotonic() > until:
            raise HostFailed("survey_unfinished", f"{top} could not be surveyed within {SURVEY_SECONDS:.0f} s")
        path = waiting.pop()
        try:
            status = os.lstat(path)
            if status.st_dev != device or not status.st_mode & 0o001:
                continue
            if status.st_mode & 0o002:
                yield Path(path)
                continue
            with os.scandir(path) as entries:
                waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue  # gone meanwhile
