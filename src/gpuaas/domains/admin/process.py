"""What this process uses, as Linux tells it; elsewhere, what can be told without /proc."""

import os
import platform
import resource
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from gpuaas.kit import clock

_PAGE = os.sysconf("SC_PAGE_SIZE")
_STARTED = clock.monotonic()  # of the program: this module is loaded while it starts


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    python: str
    pid: int
    host: str
    started_at: datetime
    uptime_seconds: float
    cpu_seconds: float
    resident_bytes: int
    open_files: int
    threads: int


def usage() -> Usage:
    uptime = clock.monotonic() - _STARTED
    return Usage(
        python=platform.python_version(),
        pid=os.getpid(),
        host=platform.node(),
        started_at=clock.now() - timedelta(seconds=uptime),
        uptime_seconds=round(uptime, 3),
        cpu_seconds=round(time.process_time(), 3),
        resident_bytes=_resident(),
        open_files=_open_files(),
        threads=threading.active_count(),
    )


def _resident() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0
