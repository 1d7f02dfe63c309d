"""DATA/run.json: which processes this run started, so that the next can end them if this one is killed.

A process is named by number, start and boot; one that does not match exactly is somebody else's.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from pathlib import Path

from gpuaas.infra.embedded.child import Identity, end, is_alive
from gpuaas.infra.embedded.files import write_private
from gpuaas.processes.up.errors import UpError

_ENDING = ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0))


def save_run(path: Path, processes: Mapping[str, Identity]) -> None:
    """Replace the record."""
    known = {name: [one.pid, one.started_ticks, one.boot] for name, one in processes.items()}
    write_private(path, json.dumps(known, indent=1).encode() + b"\n")


def load_run(path: Path) -> dict[str, Identity]:
    """The processes of the last run; none when the record is absent or unreadable."""
    try:
        known = json.loads(path.read_bytes())
        return {str(name): Identity(int(pid), int(ticks), str(boot)) for name, (pid, ticks, boot) in known.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def end_last_run(path: Path) -> list[str]:
    """End what a killed run left behind; the names of those that still ran."""
    ended = []
    for name, process in load_run(path).items():
        if is_alive(process):
            if not end(process, _ENDING):
                raise UpError(f"{name} of an earlier run (process {process.pid}) does not end")
            ended.append(name)
    path.unlink(missing_ok=True)
    return ended
