"""Local accounts of the host: read from the files themselves, changed only by the host's own programs.

Always holds: only a uid of ours is ever touched; an account has no password, neither a usable nor a locked one, so that
sshd with and without PAM lets its keys in until it expires."""

import grp
import pwd
import time
from dataclasses import dataclass
from pathlib import Path

from gpuaas.infra.hosts.linux.command import run
from gpuaas.infra.hosts.linux.layout import Layout
from gpuaas.ports.host import HostFailed

COMMENT = "GPUaaS tenant"
NO_PASSWORD = "*"  # noqa: S105 - the mark of an account nobody can log in to by password
LOCKED = "!"
EXPIRED = "1"
BUSY_ATTEMPTS = 5
_BUSY = (1, 10)  # another program holds the lock of the account files
_NO_SUCH = 6


@dataclass(frozen=True)
class Entry:
    login: str
    uid: int
    gid: int
    home: str
    shell: str
    password: str | None
    """None: the account is only half there, it has no shadow."""
    expires: str


class AccountDatabase:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def find(self, login: str) -> Entry | None:
        return next((entry for entry in self._entries() if entry.login == login), None)

    def ours(self) -> list[Entry]:
        return [entry for entry in self._entries() if entry.uid in self._layout.uids]

    def taken(self, uid: int) -> bool:
        """Whether the uid or the gid means somebody already, here or in a directory service."""
        for look_up in (pwd.getpwuid, grp.getgrgid):
            try:
                look_up(uid)
            except KeyError:
                continue
            return True
        return False

    def group(self, login: str) -> int | None:
        lines = _lines(self._layout.etc / "group")
        return next((int(fields[2]) for fields in lines if fields[0] == login and len(fields) > 2), None)

    def add(self, login: str, uid: int, home: Path, shell: str) -> None:
        self._own(uid)
        group = self.group(login)
        if group is not None and group != uid:
            self._change(["groupdel", login])
            group = None
        if group is None:
            self._change(["groupadd", "--gid", str(uid), login])
        place = ["--no-create-home", "--home-dir", str(home), "--shell", shell]
        ids = ["--uid", str(uid), "--gid", str(uid), "--password", NO_PASSWORD, "--comment", COMMENT]
        self._change(["useradd", *ids, *place, login])
        self._drop_subordinates(login)

    def open(self, login: str, shell: str, *, expired: bool) -> None:
        self._change(["usermod", "--shell", shell, "--password", NO_PASSWORD, login])
        self.expire(login, expired=expired)

    def lock(self, login: str) -> None:
        """No way in any more: by key, by password, by cron, by `su`."""
        self._change(["usermod", "--lock", "--expiredate", EXPIRED, "--shell", "/usr/sbin/nologin", login])

    def expire(self, login: str, *, expired: bool) -> None:
        self._change(["usermod", "--expiredate", EXPIRED if expired else "", login])

    def remove(self, login: str) -> None:
        entry = self.find(login)
        if entry is not None:
            self._own(entry.uid)
            self._change(["userdel", "--force", login], accept=(0, _NO_SUCH))
        group = self.group(login)
        if group is not None and group in self._layout.uids:
            self._change(["groupdel", login], accept=(0, _NO_SUCH))

    def remains(self, login: str) -> int:
        """Lines of the account files that still speak of the login."""
        files = ("passwd", "shadow", "group", "gshadow", "subuid", "subgid")
        return sum(fields[0] == login for name in files for fields in _lines(self._layout.etc / name))

    def _drop_subordinates(self, login: str) -> None:
        """Uids in a namespace of its own would outlive it: there are none."""
        for name, option in (("subuid", "--del-subuids"), ("subgid", "--del-subgids")):
            for fields in _lines(self._layout.etc / name):
                if fields[0] == login and len(fields) > 2:
                    first, count = int(fields[1]), int(fields[2])
                    self._change(["usermod", option, f"{first}-{first + count - 1}", login])

    def _own(self, uid: int) -> None:
        if uid not in self._layout.uids:
            raise HostFailed("login_not_ours", f"uid {uid} is not one of ours")

    def _change(self, argv: list[str], accept: tuple[int, ...] = (0,)) -> None:
        for attempt in range(BUSY_ATTEMPTS):
            last = attempt == BUSY_ATTEMPTS - 1
            ended = run(argv, accept=accept if last else (*accept, *_BUSY))
            if ended.code in accept:
                return
            time.sleep(0.2 * (attempt + 1))

    def _entries(self) -> list[Entry]:
        shadow = {fields[0]: fields for fields in _lines(self._layout.etc / "shadow")}
        found = []
        for fields in _lines(self._layout.etc / "passwd"):
            if len(fields) == 7 and fields[2].isdigit() and fields[3].isdigit():
                secret = shadow.get(fields[0], [])
                found.append(
                    Entry(
                        login=fields[0],
                        uid=int(fields[2]),
                        gid=int(fields[3]),
                        home=fields[5],
                        shell=fields[6],
                        password=secret[1] if len(secret) > 7 else None,
                        expires=secret[7] if len(secret) > 7 else "",
                    )
                )
        return found


def _lines(path: Path) -> list[list[str]]:
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return []
    return [line.split(":") for line in text.splitlines() if line and not line.startswith("#")]
