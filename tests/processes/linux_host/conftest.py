"""This machine as a GPU host: its own accounts and processes, a recorded server's PCI bus with one GPU, and stand-ins
for NVIDIA's libraries and tool, all put where the agent looks for them, in a mount namespace that only it sees."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpuaas.kit.ids import new_id
from tests.infra.hosts_linux import machine
from tests.infra.hosts_linux.conftest import compiled
from tests.infra.hosts_linux.recorded import GPUS, RecordedHost
from tests.support.ground import BAREMETAL
from tests.support.servers import DatabaseUrls
from tests.support.site import Site, site_of

# Accounts and mounts are made by root only. An ordinary user is told so at the top of the run, and the rest runs.
collect_ignore = [] if os.geteuid() == 0 else ["test_allocation.py"]
ONE_GPU = BAREMETAL | {"title": "1 × H200, bare metal", "gpus_per_node": 1, "allowed_gpu_counts": [1]}
LIBRARIES = f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}"


def pytest_report_header() -> str:
    return "" if os.geteuid() == 0 else "not root: no allocation is made on this machine as a host"


@dataclass(frozen=True)
class GpuHost:
    """Sick while its file is there."""

    root: Path
    serial: str

    @property
    def sick(self) -> Path:
        return self.root / "sick"

    def agent(self, state: Path) -> list[str]:
        """The command that runs the agent, with the host's hardware before its eyes."""
        script = (
            f'set -e; mount --bind "$0/server/sys" /sys; '
            f'mount -t overlay overlay -o "lowerdir=$0/bin:/usr/sbin" /usr/sbin; '
            f'mount -t overlay overlay -o "lowerdir=$0/lib:{LIBRARIES}" {LIBRARIES}; exec "$@"'
        )
        agent = [sys.executable, "-m", "gpuaas", "agent", "run", "--driver", "linux", "--state-dir", str(state)]
        return ["unshare", "--mount", "sh", "-c", script, str(self.root), *agent]


@pytest.fixture
def gpu_host(tmp_path: Path) -> GpuHost:
    host = GpuHost(tmp_path / "host", new_id().hex[-12:])
    recorded = RecordedHost(host.root / "server", driver="nvidia")
    for address in GPUS[1:]:
        recorded.lose(address)
    for folder in ("bin", "lib"):
        (host.root / folder).mkdir()
    nvml = (f'SERIAL="{host.serial}"', f'SICK_WHILE="{host.sick}"')
    compiled("nvml_stub.c", host.root / "lib" / "libnvidia-ml.so.1", *nvml)
    compiled("cuda_stub.c", host.root / "lib" / "libcuda.so.1")
    tool = host.root / "bin" / "nvidia-smi"
    tool.write_text('#!/bin/sh\n[ "$1" = --gpu-reset ] && echo "GPU $3 was successfully reset."\n')
    tool.chmod(0o755)
    return host


@pytest.fixture(scope="module")
async def site(database: DatabaseUrls, nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with site_of(database, nats_url, tmp_path_factory.mktemp("site"), ONE_GPU) as made:
        yield made


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[machine.Sshd]:
    if reason := machine.why_not():
        pytest.fail(reason)
    with machine.sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
async def node(site: Site, gpu_host: GpuHost, tmp_path: Path) -> AsyncIterator[str]:
    """This machine, enrolled with the command that was printed, at work, its GPU for sale."""
    invited = await site.invite()
    state = tmp_path / "agent"
    argv = [sys.executable, "-m", "gpuaas", *invited["command"].split()[1:], "--state-dir", str(state)]
    enrolled = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert enrolled.returncode == 0, enrolled.stderr
    running = site.start(gpu_host.agent(state), invited["name"])
    try:
        await site.sellable(1)
        yield invited["name"]
    finally:
        running.terminate()
        running.wait(20)
        await site.sql("UPDATE nodes SET cordoned = true WHERE name = $1", invited["name"])


@pytest.fixture
def swept() -> Iterator[Callable[[str, int], None]]:
    """Told of an account, it leaves nothing of it on this machine whatever the test comes to."""
    accounts: list[tuple[str, int]] = []
    yield lambda login, uid: accounts.append((login, uid))
    for login, uid in accounts:
        machine.sweep(range(uid, uid + 1), [login])
