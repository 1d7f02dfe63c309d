"""What would start something for an account later: crontabs, `at` jobs, lingering, its own systemd manager."""

import os
from pathlib import Path

from gpuaas.infra.hosts.linux.command import run
from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.infra.hosts.linux.mounts import unmount_below
from gpuaas.infra.hosts.linux.removal import remove_entry

_CRONTABS = ("cron/crontabs", "cron/tabs", "cron")
_AT_JOBS = ("cron/atjobs", "cron/atspool", "at", "at/spool")


def timers_of(layout: Layout, login: str, uid: int) -> list[Path]:
    named = [layout.spool / place / login for place in _CRONTABS] + [layout.linger / login]
    found = [path for path in named if path.is_symlink() or path.exists()]
    for place in _AT_JOBS:
        try:
            with os.scandir(layout.spool / place) as entries:
                found += [Path(entry.path) for entry in entries if entry.stat(follow_symlinks=False).st_uid == uid]
        except (FileNotFoundError, NotADirectoryError):
            continue
    return found


def remove_timers(layout: Layout, login: str, uid: int) -> int:
    if _has_systemd(layout):
        run(["loginctl", "disable-linger", login], accept=(0, 1))
    found = timers_of(layout, login, uid)
    for path in found:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            remove_entry(directory, path.name)
        finally:
            os.close(directory)
    return len(found)


def end_sessions(layout: Layout, login: str, uid: int) -> None:
    """Close what logind holds open; its runtime directory goes with it, or is taken away here."""
    if _has_systemd(layout):
        run(["loginctl", "terminate-user", login], accept=(0, 1))
        run(["systemctl", "stop", f"user@{uid}.service", f"user-{uid}.slice"], accept=(0, 1, 5))
    runtime = layout.run / "user" / str(uid)
    unmount_below(layout, runtime)
    if runtime.parent.is_dir():
        directory = os.open(runtime.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            remove_entry(directory, runtime.name)
        finally:
            os.close(directory)


def sessions_of(layout: Layout, uid: int) -> int:
    count = sum((layout.run / place / str(uid)).exists() for place in ("user", "systemd/users"))
    try:
        with os.scandir(layout.run / "systemd/sessions") as entries:
            texts = [Path(entry.path).read_text(errors="replace") for entry in entries if entry.is_file()]
    except FileNotFoundError:
        return count
    return count + sum(f"UID={uid}" in text.splitlines() for text in texts)


def _has_systemd(layout: Layout) -> bool:
    return (layout.run / "systemd/system").is_dir()
