"""Memory, semaphores and queues that outlive the processes of a uid: System V's, and POSIX message queues.

POSIX shared memory and semaphores are files in /dev/shm, and found as files. What a uid made counts as its own also
when it has given it away."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuaas.infra.hosts.linux.command import run
from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.infra.hosts.linux.mounts import read_mounts, unmount_below

_KINDS = {"shm": ("shmid", "--shmem-id"), "sem": ("semid", "--semaphore-id"), "msg": ("msqid", "--queue-id")}
_looking = threading.Lock()
"""One look at a time: they share a mount point."""


def parse_table(table: str, id_column: str, uid: int) -> list[int]:
    """Ids in one of /proc/sysvipc's tables that the uid owns or made."""
    lines = table.splitlines()
    if not lines:
        return []
    columns = lines[0].split()
    id_at, owner_at, maker_at = (columns.index(name) for name in (id_column, "uid", "cuid"))
    rows = (line.split() for line in lines[1:])
    return [int(row[id_at]) for row in rows if str(uid) in (row[owner_at], row[maker_at])]


def ipc_of(layout: Layout, uid: int, scratch: Path) -> int:
    with _queues(layout, uid, scratch) as queues:
        return len(list(_system_v(layout, uid))) + len(queues)


def remove_ipc(layout: Layout, uid: int, scratch: Path) -> int:
    count = 0
    for option, number in _system_v(layout, uid):
        run(["ipcrm", option, str(number)], accept=(0, 1))
        count += 1
    with _queues(layout, uid, scratch) as queues:
        for queue in queues:
            queue.unlink(missing_ok=True)
            count += 1
    return count


def _system_v(layout: Layout, uid: int) -> Iterator[tuple[str, int]]:
    for kind, (column, option) in _KINDS.items():
        try:
            table = (layout.proc / "sysvipc" / kind).read_text()
        except FileNotFoundError:
            continue
        for number in parse_table(table, column, uid):
            yield option, number


@contextmanager
def _queues(layout: Layout, uid: int, scratch: Path) -> Iterator[list[Path]]:
    """Queues are seen only through a mount; where there is none queues can still exist, so one is made for a look."""
    usual = layout.dev / "mqueue"
    if any(mount.point == usual and mount.kind == "mqueue" for mount in read_mounts(layout)):
        yield _owned(usual, uid)
    elif "mqueue" in (layout.proc / "filesystems").read_text():
        with _looking:
            scratch.mkdir(mode=0o700, exist_ok=True)
            unmount_below(layout, scratch)
            run(["mount", "-t", "mqueue", "-o", "nosuid,nodev,noexec", "gpuaas", str(scratch)])
            try:
                yield _owned(scratch, uid)
            finally:
                run(["umount", "--lazy", str(scratch)])
    else:
        yield []


def _owned(directory: Path, uid: int) -> list[Path]:
    with os.scandir(directory) as entries:
        return [Path(entry.path) for entry in entries if entry.stat(follow_symlinks=False).st_uid == uid]
