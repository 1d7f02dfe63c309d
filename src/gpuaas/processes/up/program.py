"""A program of ours as a part to keep: the same interpreter, its settings by environment."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from gpuaas.infra.embedded.child import Escalation, spawn
from gpuaas.infra.embedded.logs import open_log

_PROBE_TIMEOUT_SECONDS = 3.0


@dataclass(frozen=True)
class Program:
    """A process that says over HTTP whether it is ready."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    ready_url: str
    logs: Path
    stopping: Escalation = ((signal.SIGTERM, 15.0), (signal.SIGKILL, 5.0))

    @property
    def log(self) -> Path:
        """Where both its outputs go."""
        return self.logs / f"{self.name}.log"

    def launch(self) -> subprocess.Popen[bytes]:
        """Start it; its log is turned over when large."""
        return spawn(self.argv, log=open_log(self.logs, self.name), cwd=Path.cwd(), env=self.env)

    def is_ready(self) -> bool:
        """Whether its probe answers 200."""
        parts = urlsplit(self.ready_url)
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=_PROBE_TIMEOUT_SECONDS)
        try:
            connection.request("GET", parts.path)
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


def gpuaas_program(name: str, env: Mapping[str, str], ready_url: str, logs: Path) -> Program:
    """`gpuaas <name>`, whether or not the command is on the path."""
    return Program(name, (sys.executable, "-m", "gpuaas", name), env, ready_url, logs)
