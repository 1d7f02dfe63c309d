"""Group `start`: how long the next start takes with the data there is, and the command line to its help."""

import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.figures import RUNS, Figure, bounded
from gpuaas.infra.embedded.home import make_temporary_directory

READY_SECONDS = 60
SECOND_START_SECONDS = 5
HELP_MS = 100


def run(only: str | None) -> list[Figure]:
    figures = {"second_start": _second_start, "help": _help}
    return [make() for name, make in figures.items() if only in {None, name}]


def _second_start() -> Figure:
    home = make_temporary_directory()
    try:
        _start(home)
        return bounded(
            "start.second_start", "s", statistics.median(_start(home) for _ in range(RUNS)), SECOND_START_SECONDS
        )
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _start(home: Path) -> float:
    """Seconds from the command to everything ready; then it is stopped."""
    ready = home / "ready.json"
    began = time.perf_counter()
    up = subprocess.Popen(
        [sys.executable, "-m", "gpuaas", "up", "--data-dir", str(home / "data"), "--ready-file", str(ready)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        while not ready.exists():
            if up.poll() is not None or time.perf_counter() - began > READY_SECONDS:
                raise RuntimeError("gpuaas up did not get ready")
            time.sleep(0.01)
        spent = time.perf_counter() - began
        json.loads(ready.read_text())
        return spent
    finally:
        up.terminate()
        up.wait(30)


def _help() -> Figure:
    """The bar: three times the bare interpreter and a tenth of a second."""
    bare = _milliseconds([sys.executable, "-c", "pass"])
    return bounded("start.help", "ms", _milliseconds([sys.executable, "-m", "gpuaas", "--help"]), 3 * bare + HELP_MS)


def _milliseconds(words: list[str]) -> float:
    spent = []
    for _ in range(RUNS):
        began = time.perf_counter()
        subprocess.run(words, check=True, capture_output=True)
        spent.append((time.perf_counter() - began) * 1000)
    return statistics.median(spent)
