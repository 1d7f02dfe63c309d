"""The demo's fleet on the hosts' side: processes that each run a few hundred simulated nodes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuaas.infra.embedded.child import Escalation, spawn
from gpuaas.infra.embedded.logs import open_log
from gpuaas.processes.up.fleet_seed import PER_PROCESS, enrolments_file, node_name

FOLDER = FLEET = "fleet"
_ENOUGH = 3
"""So many nodes are waited for; the others come while one already looks."""
_LONGEST_SOCKET = 100
"""A unix socket's address has at most 107 characters."""


@dataclass(frozen=True)
class FleetProgram:
    """One of the processes; ready when its first nodes are enrolled."""

    name: str
    number: int
    nodes: int
    directory: Path
    url: str
    env: Mapping[str, str]
    logs: Path
    stopping: Escalation = ((signal.SIGTERM, 15.0), (signal.SIGKILL, 5.0))

    @property
    def log(self) -> Path:
        """Where both its outputs go."""
        return self.logs / f"{self.name}.log"

    @property
    def socket(self) -> Path:
        return self.directory / f"{self.number}.sock"

    def launch(self) -> subprocess.Popen[bytes]:
        """Start it; its log is turned over when large."""
        argv = [sys.executable, "-m", "gpuaas", "agent", "fleet", "--state-dir", str(self.directory), "--url", self.url]
        argv += ["--enrolments", enrolments_file(self.number)]
        if len(str(self.socket)) <= _LONGEST_SOCKET:
            argv += ["--control", str(self.socket)]
        return spawn(argv, log=open_log(self.logs, self.name), cwd=Path.cwd(), env=self.env)

    def is_ready(self) -> bool:
        """Whether enough of its nodes are enrolled; from the second start on they are."""
        first = self.number * PER_PROCESS
        enough = [node_name(number) for number in range(first, first + min(self.nodes, _ENOUGH))]
        return all((self.directory / name / "agent.json").exists() for name in enough)


def fleet_programs(nodes: int, data: Path, url: str, env: Mapping[str, str], logs: Path) -> list[FleetProgram]:
    """As many processes as so many nodes need. They get nothing of the programs' settings: they are other machines."""
    own = {key: value for key, value in env.items() if not key.startswith("GPUAAS_")}
    starts = range(0, nodes, PER_PROCESS)
    return [
        FleetProgram(
            f"{FLEET}-{number}" if len(starts) > 1 else FLEET,
            number,
            min(PER_PROCESS, nodes - start),
            data / FOLDER,
            url,
            own,
            logs,
        )
        for number, start in enumerate(starts)
    ]
