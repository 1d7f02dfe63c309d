"""One embedded NATS server with JetStream.

It listens on loopback only and asks everybody for the password.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from gpuaas.infra.embedded.binaries import SHARED_DIRECTORY, nats_binaries, reachable_by
from gpuaas.infra.embedded.child import end, processes_in
from gpuaas.infra.embedded.errors import EmbeddedError
from gpuaas.infra.embedded.files import write_private
from gpuaas.infra.embedded.home import make_owned
from gpuaas.infra.embedded.ports import LOOPBACK, free_port
from gpuaas.infra.embedded.server import EmbeddedServer

_USER = "gpuaas"


class EmbeddedNats(EmbeddedServer):
    """A NATS server in DATA/nats. With `durable` an acknowledged message is on the disk."""

    name = "nats"
    stopping = ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0))

    def __init__(self, data_dir: Path, *, durable: bool = True, shared: Path = SHARED_DIRECTORY) -> None:
        super().__init__(data_dir, durable=durable, shared=shared)
        self._program = Path("nats-server")
        self._ports: tuple[int, int] | None = None

    def start(self) -> str:
        """Make it if need be, end what a crash left, run it and wait until it answers; its URL."""
        self._run()
        return self.url

    def __enter__(self) -> str:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """With user and password; the same after every restart unless somebody took the port meanwhile."""
        return f"nats://{_USER}:{self._password()}@{LOOPBACK}:{self._both_ports()[0]}"

    @property
    def monitor_url(self) -> str:
        """The server's own figures (`/varz`, `/jsz`), on loopback."""
        return f"http://{LOOPBACK}:{self._both_ports()[1]}"

    def is_ready(self) -> bool:
        """Whether it says of itself that JetStream works."""
        if self.pid is None:
            return False
        monitor = HTTPConnection(LOOPBACK, self._both_ports()[1], timeout=2)
        try:
            monitor.request("GET", "/healthz?js-enabled-only=true")
            return monitor.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            monitor.close()

    def _make(self, home: Path) -> None:
        self._program = reachable_by(self._account, nats_binaries(), self._shared) / "nats-server"
        self._end_leftovers(home)
        client, monitor = _recorded_ports(home)
        client = free_port(preferred=client)
        monitor = free_port(preferred=monitor, taken=frozenset({client}))
        self._ports = (client, monitor)
        (home / "ports.json").write_text(json.dumps(self._ports))

    def _command(self, home: Path) -> Sequence[str]:
        # Made at every launch: NATS only moves, so deleted data is no obstacle.
        store = make_owned(home / "data", self._account)
        configuration = home / "nats.conf"
        write_private(configuration, self._configuration(store).encode())
        if self._account is not None:
            os.chown(configuration, self._account.uid, self._account.gid)
        return [str(self._program), "--config", str(configuration)]

    def _configuration(self, store: Path) -> str:
        client, monitor = self._both_ports()
        return f"""\
server_name: gpuaas
listen: "{LOOPBACK}:{client}"
http: "{LOOPBACK}:{monitor}"
max_payload: 1MB
authorization {{ user: "{_USER}", password: "{self._password()}" }}
jetstream {{
  store_dir: {json.dumps(str(store))}
  sync_interval: {"always" if self._durable else "2m"}
  max_memory_store: 256MB
  max_file_store: 20GB
}}
"""

    def _end_leftovers(self, home: Path) -> None:
        for process in processes_in(home / "nats.conf", "nats-server"):
            if not end(process, self.stopping):
                raise EmbeddedError(f"the NATS server of an earlier start (process {process.pid}) stays")

    def _password(self) -> str:
        return self._secrets.ensure("nats_password")

    def _both_ports(self) -> tuple[int, int]:
        if self._ports is None:
            raise EmbeddedError("nats has no port before it is prepared")
        return self._ports


def _recorded_ports(home: Path) -> tuple[int | None, int | None]:
    try:
        client, monitor = (int(port) for port in json.loads((home / "ports.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None, None
    return client, monitor
