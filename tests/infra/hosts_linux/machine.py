"""This machine as the tests see it, without any code of the product: who runs, what is left, and a real sshd."""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from secrets import randbelow, token_hex

PACKAGES = {
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "crontab": "cron",
    "useradd": "passwd",
    "kill": "procps",
    "cc": "gcc libc6-dev",
}
"""What these tests run, and Debian's packages that bring it."""


def why_not() -> str:
    """Why accounts cannot be tested here; empty when they can."""
    if os.geteuid() != 0:
        return "accounts are made by root only: run these tests as root"
    return install(*(program for program in PACKAGES if program != "cc"))


def install(*programs: str) -> str:
    """Bring what is missing, where root may; what is missing still, or nothing."""
    packages = [package for program in programs if which(program) is None for package in PACKAGES[program].split()]
    if packages and os.geteuid() == 0 and which("apt-get") is not None:
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update", "-qq"], ["install", "-qq", "--yes", "--no-install-recommends", *packages]):
            subprocess.run(["apt-get", *command], env=environment, capture_output=True, timeout=150, check=False)
    missing = [program for program in programs if which(program) is None]
    return f"not installed here: {', '.join(missing)}" if missing else ""


def which(program: str) -> str | None:
    return shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin")


def free_uids(count: int = 6) -> range:
    """Uids nobody has, away from another run of the same tests."""
    while True:
        first = 71_000 + randbelow(8_000)
        if not any(map(_known, range(first, first + count))) and not processes(*range(first, first + count)):
            return range(first, first + count)


def new_login() -> str:
    return f"gt{token_hex(6)}"


def _known(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def processes(*uids: int) -> list[int]:
    """Every process with a living thread under one of these uids, in any of its four."""
    wanted = {str(uid) for uid in uids}
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                status = Path(f"/proc/{pid}/task/{thread}/status").read_text()
                fields = dict(line.partition(":")[::2] for line in status.splitlines())
                if wanted & set(fields["Uid"].split()) and fields["State"].split()[0] not in "ZX":
                    found.append(int(pid))
                    break
    return found


def files(uid: int) -> list[str]:
    """By find(1), everywhere a user could write; other file systems too."""
    places = ["/tmp", "/var/tmp", "/dev", "/run", "/var/spool", "/var/mail", "/home", "/etc", "/var/lib/systemd"]
    there = [place for place in places if os.path.exists(place)]
    found = subprocess.run(
        ["find", *there, "(", "-uid", str(uid), "-o", "-gid", str(uid), ")", "-print"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.splitlines()


def ipc(uid: int) -> list[str]:
    tables = [Path("/proc/sysvipc", kind).read_text().splitlines()[1:] for kind in ("shm", "sem", "msg")]
    return [line for table in tables for line in table if str(uid) in line.split()]


def queues(uid: int, scratch: Path) -> list[str]:
    """POSIX message queues, seen through a mount of our own."""
    scratch.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "mqueue", "none", str(scratch)], check=True)
    try:
        return [entry.name for entry in os.scandir(scratch) if entry.stat().st_uid == uid]
    finally:
        subprocess.run(["umount", "--lazy", str(scratch)], check=True)


def names(login: str) -> list[str]:
    """Lines and files of the system that speak of the login."""
    texts = ["/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/subuid", "/etc/subgid"]
    lines = [line for text in texts if os.path.exists(text) for line in Path(text).read_text().splitlines()]
    found = [line for line in lines if login in line]
    places = ["/etc/security/limits.d", "/var/spool/cron/crontabs", "/var/mail", "/home", "/var/lib/systemd/linger"]
    return found + [name for place in places if os.path.isdir(place) for name in os.listdir(place) if login in name]


def remains(uid: int, login: str) -> dict[str, list[object]]:
    """All that is left; empty when nothing is."""
    found: dict[str, list[object]] = {
        "processes": [*processes(uid)],
        "files": [*files(uid)],
        "ipc": [*ipc(uid)],
        "names": [*names(login)],
    }
    return {kind: some for kind, some in found.items() if some}


def sweep(uids: range, logins: list[str]) -> None:
    """Clean up after a test, whatever became of it."""
    while left := processes(*uids):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        time.sleep(0.02)
    for login in logins:
        subprocess.run(["chattr", "-R", "-i", "-a", f"/home/{login}"], capture_output=True, check=False)
        shutil.rmtree(f"/home/{login}", ignore_errors=True)
        for path in (f"/etc/security/limits.d/60-gpuaas-{login}.conf", f"/var/spool/cron/crontabs/{login}"):
            Path(path).unlink(missing_ok=True)
        for program in ("userdel", "groupdel"):
            subprocess.run([program, login], capture_output=True, check=False)
    for uid in uids:
        for line in ipc(uid):
            number = line.split()[1]
            for option in ("--shmem-id", "--semaphore-id", "--queue-id"):
                subprocess.run(["ipcrm", option, number], capture_output=True, check=False)
    owner = ["-uid", f"+{uids[0] - 1}", "-uid", f"-{uids[-1] + 1}"]
    places = ["/tmp", "/var/tmp", "/dev/shm", "/var/spool"]
    subprocess.run(["find", *places, *owner, "-delete"], capture_output=True, check=False)


@dataclass(frozen=True)
class Sshd:
    port: int
    directory: Path
    key: Path

    @property
    def public_key(self) -> str:
        return " ".join(self.key.with_suffix(".pub").read_text().split()[:2])

    def new_key(self, name: str) -> Path:
        key = self.directory / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        return key

    def run(self, login: str, command: str, *, key: Path | None = None) -> subprocess.CompletedProcess[str]:
        options = ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "IdentitiesOnly=yes"]
        return subprocess.run(
            ["ssh", "-F", "none", "-q", "-T", "-i", str(key or self.key), "-p", str(self.port)]
            + [word for option in options for word in ("-o", option)]
            + [f"{login}@127.0.0.1", command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@contextlib.contextmanager
def sshd(directory: Path, *, pam: bool = True) -> Iterator[Sshd]:
    """Plain OpenSSH on a port of its own on loopback, with its own host key."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    host_key, key = directory / "host_key", directory / "key"
    for path in (host_key, key):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    config = directory / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {host_key}\nPidFile none\nUsePAM {'yes' if pam else 'no'}\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nStrictModes yes\nMaxStartups 100\n"
    )
    server = subprocess.Popen([str(which("sshd")), "-D", "-e", "-f", str(config)], stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 10
        while True:
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if time.monotonic() > until or server.poll() is not None:
                raise RuntimeError("sshd did not start")
            time.sleep(0.05)
        yield Sshd(port, directory, key)
    finally:
        server.terminate()
        server.wait(10)
