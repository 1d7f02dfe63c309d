"""Child processes: starting, recognising and stopping them.

A process is known by its number, the tick it started at and the boot it belongs to, so a number that
the kernel has given to somebody else is never signalled. Linux only (`/proc`, pidfd).
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuaas.infra.embedded.account import Account

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

Escalation = Sequence[tuple[signal.Signals, float]]
"""Signals to send one after the other, each with the seconds it is given to work."""


@dataclass(frozen=True)
class Identity:
    """One process of one boot of this machine, for ever."""

    pid: int
    started_ticks: int
    boot: str


def boot_id() -> str:
    """Which boot this is; process numbers of another one mean nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def identify(pid: int) -> Identity | None:
    """Who has this number now; None if nobody, or only the remains of an ended process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold spaces and brackets
    return None if fields[0] in "ZX" else Identity(pid, int(fields[19]), boot_id())


def is_alive(identity: Identity) -> bool:
    """Whether exactly this process still runs."""
    return identify(identity.pid) == identity


def processes_in(directory: Path, program: str) -> list[Identity]:
    """Every running `program` that was started on this directory or works in it.

    The arguments are readable by everybody; the working directory, which also shows a server's own
    children, only by its user and by a root that may trace.
    """
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        process = Path("/proc", entry)
        try:
            argv = (process / "cmdline").read_bytes().split(b"\0")
            started_on = os.path.basename(argv[0]) == program.encode() and os.fsencode(directory) in argv[1:]
            if not started_on and not _works_in(process, directory, program):
                continue
        except OSError:
            continue  # gone meanwhile
        identity = identify(int(entry))
        if identity is not None:
            found.append(identity)
    return found


def _works_in(process: Path, directory: Path, program: str) -> bool:
    try:
        where, what = os.readlink(process / "cwd"), os.readlink(process / "exe")
    except PermissionError:
        return False
    return where == str(directory) and os.path.basename(what.removesuffix(" (deleted)")) == program


def end(identity: Identity, escalation: Escalation) -> bool:
    """Stop this process by the signals in turn; True once it is gone. Nobody else can be hit."""
    try:
        handle = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return True
    try:
        if not is_alive(identity):
            return True
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        for number, seconds in escalation:
            try:
                signal.pidfd_send_signal(handle, number)
            except ProcessLookupError:
                return True
            if waiting.poll(seconds * 1000):
                return True
        return not is_alive(identity)
    finally:
        os.close(handle)


def end_child(child: subprocess.Popen[bytes], escalation: Escalation) -> None:
    """Stop our own child by the signals in turn and collect it."""
    for number, seconds in escalation:
        if child.poll() is not None:
            return
        child.send_signal(number)
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
    child.poll()


def spawn(
    argv: Sequence[str],
    *,
    log: Path,
    cwd: Path,
    env: Mapping[str, str],
    account: Account | None = None,
    parent_death: signal.Signals = signal.SIGTERM,
) -> subprocess.Popen[bytes]:
    """Start a child in its own session (a terminal's Ctrl-C does not reach it), both outputs to `log`.

    It is told by the kernel when we die. That is a courtesy only: the kernel means our *thread*, so it
    is asked for on the main thread alone, and recovery never depends on it.
    """
    preexec = None
    if threading.current_thread() is threading.main_thread():
        ours = os.getpid()

        def preexec() -> None:
            _libc.prctl(_PR_SET_PDEATHSIG, int(parent_death), 0, 0, 0)
            if os.getppid() != ours:
                os._exit(1)

    with log.open("ab") as output:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
            preexec_fn=preexec,  # noqa: PLW1509 - one system call, prepared before the fork
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )


def wait_until_gone(identities: Sequence[Identity], seconds: float) -> list[Identity]:
    """Those that are still there after so long; empty as soon as all are gone."""
    give_up_at = time.monotonic() + seconds
    while True:
        left = [identity for identity in identities if is_alive(identity)]
        if not left or time.monotonic() >= give_up_at:
            return left
        time.sleep(0.01)
