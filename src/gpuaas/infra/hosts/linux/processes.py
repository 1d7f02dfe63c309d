"""Processes of a uid: found in /proc, in whatever session, namespace or container they hide, and ended.

A process belongs to the uid by its real or saved uid: a set-uid program it started is its own, a daemon that acts
for it for a moment is not. A process whose first thread has ended lives as long as any of its threads."""

import os
import signal
import time
from pathlib import Path

from gpuaas.infra.hosts.linux.command import run
from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.kit import clock
from gpuaas.ports.host import HostFailed

END_SECONDS = 30.0
_ROUND_SECONDS = 0.02
_ENDED = (b"Z", b"X")


def processes_of(layout: Layout, uid: int) -> list[int]:
    """Numbers of the living."""
    numbers = (int(name) for name in os.listdir(layout.proc) if name.isdigit())
    return [pid for pid in numbers if _belongs(layout.proc / str(pid), uid) and _lives(layout.proc / str(pid))]


def end_processes(layout: Layout, uid: int) -> int:
    """Kill until none is left or the time is over; how many different ones were seen.

    Asked as that uid, the kernel kills all it has in one step, so that nobody forks faster than we look."""
    if uid not in layout.uids:
        raise HostFailed("login_not_ours", f"uid {uid} is not one of ours")
    seen: set[int] = set()
    until = clock.monotonic() + END_SECONDS
    while left := processes_of(layout, uid):
        seen.update(left)
        _kill_all_at_once(uid)
        for pid in left:
            _kill(layout, pid, uid)
        if clock.monotonic() > until:
            break
        time.sleep(_ROUND_SECONDS)
    return len(seen)


def _kill_all_at_once(uid: int) -> None:
    try:
        run(["kill", "-KILL", "--", "-1"], timeout_seconds=10, accept=(0, 1), uid=uid)
    except HostFailed:
        return  # one by one is slower, and enough for all but a fork bomb


def _kill(layout: Layout, pid: int, uid: int) -> None:
    """By a handle, so that a number given to somebody else meanwhile is not hit."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if _belongs(layout.proc / str(pid), uid):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def _belongs(process: Path, uid: int) -> bool:
    try:
        with (process / "status").open("rb") as status:
            for line in status:
                if line.startswith(b"Uid:"):
                    real, _, saved, _ = (int(number) for number in line.split()[1:5])
                    return uid in (real, saved)
    except OSError:
        return False
    return False


def _lives(process: Path) -> bool:
    try:
        threads = os.listdir(process / "task")
    except OSError:
        return False
    return any(_state(process / "task" / thread) not in _ENDED for thread in threads)


def _state(thread: Path) -> bytes:
    try:
        return (thread / "stat").read_bytes().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return b"X"
