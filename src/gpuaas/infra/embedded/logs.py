"""Log files of child processes: bounded by turning them over at each start, and quoted when one fails."""

from __future__ import annotations

import os
from pathlib import Path

_LARGEST_BYTES = 8 * 1024 * 1024
_TAIL_BYTES = 8 * 1024
_LONGEST_LINE = 300


def open_log(directory: Path, name: str, *, largest_bytes: int = _LARGEST_BYTES) -> Path:
    """The log of `name`; a large one is first put aside, replacing the one put aside before."""
    directory.mkdir(mode=0o700, exist_ok=True)
    log = directory / f"{name}.log"
    if log.exists() and log.stat().st_size > largest_bytes:
        os.replace(log, directory / f"{name}.log.1")
    log.touch(mode=0o600)
    return log


def last_lines(log: Path, count: int, *, after: int = 0) -> list[str]:
    """The last lines written, each shortened and free of control characters; none of those before `after`."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(after, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    lines = [line for line in text.splitlines() if line.strip()]
    return ["".join(c if c.isprintable() else " " for c in line)[:_LONGEST_LINE] for line in lines[-count:]]
