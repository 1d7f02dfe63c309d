"""Running `gpuaas up` as a person would: a real command, watched from outside."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuaas.infra.embedded.child import identify
from gpuaas.infra.embedded.home import make_temporary_directory
from gpuaas.infra.embedded.ports import free_port

READY_SECONDS = 120

# An ordinary user runs all the other tests as one already; what only root can try is for runs as root.
collect_ignore = [] if os.geteuid() == 0 else ["test_whoever.py"]


class Up:
    """One `gpuaas up` on a directory of its own; may be started again and again."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.data = place / "data"
        self.ready_file = place / "ready.json"
        self.output = place / "output"
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def command(self, *extra: str, port: bool = True) -> list[str]:
        argv = [sys.executable, "-m", "gpuaas", "up", "--data-dir", str(self.data)]
        argv += ["--ready-file", str(self.ready_file)]
        return [*argv, *(("--port", str(self.port)) if port else ()), *extra]

    def environment(self, **extra: str) -> dict[str, str]:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("GPUAAS_")}
        return inherited | extra

    def launch(self, *extra: str, port: bool = True, env: Mapping[str, str] | None = None, **how: Any) -> None:
        """Start it without waiting."""
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                self.command(*extra, port=port),
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment(**(env or {})),
                cwd=self.place,
                start_new_session=True,
                **how,
            )

    def start(self, *extra: str, **how: Any) -> dict[str, Any]:
        """Start it and wait until it says it is ready; what it says."""
        self.ready_file.unlink(missing_ok=True)
        self.launch(*extra, **how)
        return self.wait_ready()

    def wait_ready(self) -> dict[str, Any]:
        assert self.process is not None
        give_up_at = time.monotonic() + READY_SECONDS
        while not self.ready_file.exists():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < give_up_at, self.said()
            time.sleep(0.02)
        return self.ready()

    def ready(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.ready_file.read_text())
        return content

    def run(self, *extra: str, env: Mapping[str, str] | None = None, **how: Any) -> tuple[int, str, str]:
        """Run it to its end; exit code, stdout, stderr."""
        done = subprocess.run(
            self.command(*extra), capture_output=True, text=True, timeout=60, cwd=self.place,
            env=self.environment(**(env or {})), check=False, **how,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(60)
        self.process = None
        return code

    def said(self) -> str:
        return self.output.read_text()


def all_processes(ready: Mapping[str, Any]) -> dict[str, Any]:
    """The identity of everything that runs, by name."""
    found = {name: identify(pid) for name, pid in {**ready["programs"], **ready["servers"]}.items()}
    assert all(found.values()), found
    return found


def wait_until(holds: Any, what: str, seconds: float = 30) -> None:
    give_up_at = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < give_up_at, what
        time.sleep(0.02)


@pytest.fixture
def place() -> Iterator[Path]:
    path = make_temporary_directory()
    yield path
    shutil.rmtree(path)


@pytest.fixture
def up(place: Path) -> Iterator[Up]:
    running = Up(place)
    yield running
    end(running)


def end(up: Up) -> None:
    """Leave nothing running, whatever the test did."""
    if up.process is not None and up.process.poll() is None:
        up.process.send_signal(signal.SIGTERM)
        try:
            up.process.wait(60)
        except subprocess.TimeoutExpired:
            up.process.kill()
            up.process.wait()
    if up.ready_file.exists():
        left = {**up.ready()["programs"], **up.ready()["servers"]}
        wait_until(lambda: not any(identify(pid) for pid in left.values()), f"left running: {left}")
