"""One embedded PostgreSQL: its settings and what a crash of it leaves behind.

Nothing is taken for a leftover but PostgreSQL processes that were started on this very cluster or work
in it. Every connection gives a password, over the socket too.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuaas.infra.embedded.binaries import SHARED_DIRECTORY, postgres_binaries, reachable_by
from gpuaas.infra.embedded.child import end, identify, processes_in, wait_until_gone
from gpuaas.infra.embedded.cluster import APP, DATABASE, OWNER, SUPERUSER, make_cluster, passwords
from gpuaas.infra.embedded.errors import EmbeddedError
from gpuaas.infra.embedded.home import make_owned
from gpuaas.infra.embedded.ports import LOOPBACK, free_port
from gpuaas.infra.embedded.server import EmbeddedServer

_LONGEST_SOCKET_PATH = 107

_SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "warning",
    "log_line_prefix": "%m [%p] %q%u@%d ",
    "password_encryption": "scram-sha-256",
    "cluster_name": "gpuaas",
}
_FAST_AND_FORGETFUL = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}


@dataclass(frozen=True)
class PostgresUrls:
    """How to reach the database `gpuaas` as each role."""

    app: str
    owner: str
    superuser: str


class EmbeddedPostgres(EmbeddedServer):
    """A PostgreSQL 18 in DATA/postgres. Without `durable` a power cut may lose everything: tests only."""

    name = "postgres"
    # Fast shutdown, then immediate shutdown, then the kernel's.
    stopping = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))
    parent_death = signal.SIGINT

    def __init__(self, data_dir: Path, *, durable: bool = True, shared: Path = SHARED_DIRECTORY) -> None:
        super().__init__(data_dir, durable=durable, shared=shared)
        self._binaries = Path()
        self._port: int | None = None

    def start(self) -> PostgresUrls:
        """Make it if need be, recover what a crash left, run it and wait until it answers."""
        self._run()
        return self.urls

    def __enter__(self) -> PostgresUrls:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def urls(self) -> PostgresUrls:
        """Over loopback TCP; the same after every restart unless somebody took the port meanwhile.

        TLS is not asked for: a driver that asks looks for keys in a home it may not be able to read.
        """
        password = passwords(self._secrets)
        app, owner, superuser = (
            f"postgresql://{role}:{password[role]}@{LOOPBACK}:{self._port}/{DATABASE}?sslmode=disable"
            for role in (APP, OWNER, SUPERUSER)
        )
        return PostgresUrls(app, owner, superuser)

    @property
    def socket_directory(self) -> Path:
        """In the server's directory; where that path is too long for a socket, a short one of its own."""
        sockets = self.home / "run"
        if len(os.fsencode(sockets / ".s.PGSQL.65535.lock")) <= _LONGEST_SOCKET_PATH:
            return sockets
        status = self.home.stat()
        return Path(f"/tmp/gpuaas-{status.st_dev:x}-{status.st_ino:x}")  # noqa: S108 - `make_owned` refuses another's

    def is_ready(self) -> bool:
        """Whether our child says in its own file that it accepts connections."""
        try:
            lines = (self._cluster / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def _make(self, home: Path) -> None:
        self._binaries = reachable_by(self._account, postgres_binaries(), self._shared)
        make_cluster(home, self._binaries, self._secrets, self._account, durable=self._durable)
        self._end_leftovers(home)
        self._port = free_port(preferred=_recorded_port(home))
        (home / "port").write_text(f"{self._port}\n")

    def _command(self, home: Path) -> Sequence[str]:
        sockets = make_owned(self.socket_directory, self._account)
        settings = _SETTINGS | ({} if self._durable else _FAST_AND_FORGETFUL)
        settings |= {"port": str(self._port), "unix_socket_directories": str(sockets)}
        argv = [str(self._binaries / "bin" / "postgres"), "-D", str(self._cluster)]
        for key, value in settings.items():
            argv += ["-c", f"{key}={value}"]
        return argv

    def _end_leftovers(self, home: Path) -> None:
        end_leftovers(home / "data")

    @property
    def _cluster(self) -> Path:
        return self.home / "data"


def end_leftovers(cluster: Path) -> None:
    """End every PostgreSQL process that still works in this cluster.

    A `postmaster.pid` whose number was given to somebody else meanwhile is removed, but only once nothing
    is attached to the memory it names; any other stale one the server removes itself.
    """
    found = processes_in(cluster, "postgres")
    recorded = _recorded_postmaster(cluster)
    for postmaster in (process for process in found if process.pid == recorded):
        end(postmaster, EmbeddedPostgres.stopping)
    for left in wait_until_gone(found, 5):
        end(left, ((signal.SIGQUIT, 3.0), (signal.SIGKILL, 3.0)))
    if processes_in(cluster, "postgres"):
        raise EmbeddedError(f"PostgreSQL processes of an earlier start will not leave {cluster}")
    if recorded is not None and identify(recorded) is not None and not _memory_in_use(cluster):
        (cluster / "postmaster.pid").unlink(missing_ok=True)


def _recorded_postmaster(cluster: Path) -> int | None:
    try:
        return int((cluster / "postmaster.pid").read_text().splitlines()[0])
    except (OSError, ValueError, IndexError):
        return None


def _memory_in_use(cluster: Path) -> bool:
    """Whether any process is attached to the shared memory segment that `postmaster.pid` names."""
    try:
        segment = (cluster / "postmaster.pid").read_text().splitlines()[6].split()[1]
        rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    except (OSError, IndexError):
        return False
    return any(row[1] == segment and row[6] != "0" for row in rows)


def _recorded_port(home: Path) -> int | None:
    try:
        port = int((home / "port").read_text())
    except (OSError, ValueError):
        return None
    return port if 0 < port < 65_536 else None
