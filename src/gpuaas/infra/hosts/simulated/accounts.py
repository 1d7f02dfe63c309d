"""Accounts of a simulated host: a throw-away home each, and shells in it that have no more rights than the user who
started the agent. A process belongs to an account when it was started with its home in its environment."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from gpuaas.kit import clock

MARK = "GPUAAS_SIMULATED_HOME"
KILL_SECONDS = 5.0
LOOKS, LOOK_SECONDS = 10, 0.002


def make_home(home: Path, ssh_keys: list[str]) -> None:
    """The home with exactly these keys; made again it is the same."""
    ssh = home / ".ssh"
    ssh.mkdir(mode=0o700, parents=True, exist_ok=True)
    home.chmod(0o700)
    draft = ssh / ".authorized_keys"
    draft.write_text("".join(f"{key}\n" for key in ssh_keys))
    draft.chmod(0o600)
    draft.replace(ssh / "authorized_keys")


def remove_home(home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)


def sweep(homes: Path) -> int:
    """No home and no process of anybody is left; how many homes there were."""
    found = sorted(homes.glob("*"))
    for home in found:
        end_processes(home)
        remove_home(home)
    homes.mkdir(mode=0o700, exist_ok=True)
    homes.rmdir()
    return len(found)


def files_in(home: Path) -> int:
    return sum(len(files) + 1 for _, _, files in os.walk(home))


def start_shell(home: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """`/bin/sh` at home, in a session of its own, knowing nothing of our environment."""
    return subprocess.Popen(
        ["/bin/sh", *arguments],
        cwd=home,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", "LOGNAME": home.name, "USER": home.name, MARK: str(home)},
    )


def processes_of(home: Path) -> list[int]:
    wanted, found = f"{MARK}={home}".encode(), []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = _environment(entry).split(b"\0")
            ended = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            continue  # gone meanwhile, or not ours to look at
        if wanted in environment and not ended:
            found.append(int(entry))
    return found


def _environment(entry: str) -> bytes:
    """A process that is about to become another program has none for a moment: it is looked at again. One of the kernel
    never has any, and no program."""
    for _ in range(LOOKS):
        found = Path("/proc", entry, "environ").read_bytes()
        if found:
            return found
        os.readlink(f"/proc/{entry}/exe")
        time.sleep(LOOK_SECONDS)
    return b""


def end_processes(home: Path) -> int:
    """Kill every process of the account until none is left; how many there were."""
    ended: set[int] = set()
    until = clock.monotonic() + KILL_SECONDS
    while left := processes_of(home):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
            except (ProcessLookupError, ChildProcessError):
                pass
        ended.update(left)
        if clock.monotonic() > until:
            break
        time.sleep(0.02)
    return len(ended)
