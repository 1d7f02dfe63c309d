"""Another machine: a network namespace of its own, with its own /var/lib, joined to this one by one cable."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

# Only root can make one. An ordinary user is told so at the top of the run, and the rest runs.
collect_ignore = [] if os.geteuid() == 0 else ["test_second_machine.py"]


def pytest_report_header() -> str:
    return "" if os.geteuid() == 0 else "not root: no second machine (network namespace) is made and enrolled"


@dataclass(frozen=True)
class Machine:
    name: str
    ours: str
    """The address of this machine, as the other sees it."""

    def start(self, line: str, log: Path) -> subprocess.Popen[bytes]:
        """A line of shell there; /var/lib is empty at first and gone with it."""
        script = f"mount -t tmpfs -o mode=755 none /var/lib && {line}"
        env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": "/nonexistent"}
        env |= {name: os.environ[name] for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE") if name in os.environ}
        with log.open("wb") as out:
            return subprocess.Popen(
                ["ip", "netns", "exec", self.name, "sh", "-c", script], stdout=out, stderr=out, env=env
            )


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


@pytest.fixture
def machine() -> Iterator[Machine]:
    mark = os.urandom(3)
    name, here, there = f"gpuaas-{mark.hex()}", f"gp{mark.hex()}a", f"gp{mark.hex()}b"
    net = f"10.{200 + mark[0] % 50}.{mark[1]}.{mark[2] & 0xFC}".rpartition(".")
    ours, theirs = (f"{net[0]}.{int(net[2]) + number}" for number in (1, 2))
    ip("netns", "add", name)
    try:
        ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        ip("addr", "add", f"{ours}/30", "dev", here)
        ip("link", "set", here, "up")
        ip("-n", name, "addr", "add", f"{theirs}/30", "dev", there)
        ip("-n", name, "link", "set", there, "up")
        yield Machine(name, ours)
    finally:
        ip("netns", "del", name)
