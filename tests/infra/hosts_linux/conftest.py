"""Accounts on this machine: only where root may make them, and swept away whatever a test did."""

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpuaas.infra.hosts.linux.accounts import Accounts, Terms
from gpuaas.infra.hosts.linux.layout import Layout
from tests.infra.hosts_linux import machine

HERE = Path(__file__).parent
# Accounts are made by root only; everything else of the host is tested by whoever runs the tests.
collect_ignore = (
    [] if os.geteuid() == 0 else ["test_accounts.py", "test_hostile.py", "test_interrupted.py", "test_device_access.py"]
)


@dataclass
class Ground:
    """A range of uids and a state directory of one test, and the logins it uses."""

    uids: range
    state: Path
    terms: Terms = field(default_factory=lambda: Terms(processes=200))
    logins: list[str] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)

    def login(self) -> str:
        self.logins.append(machine.new_login())
        return self.logins[-1]

    def accounts(self) -> Accounts:
        """As the agent has them after a start."""
        return Accounts(Layout(uids=self.uids), self.state, self.terms)

    async def tell(self, name: str, detail: str) -> None:
        self.phases.append(name)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    if reason := machine.why_not():
        pytest.fail(reason)
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    made = Ground(machine.free_uids(), state)
    try:
        yield made
    finally:
        machine.sweep(made.uids, made.logins)


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[machine.Sshd]:
    if reason := machine.why_not():
        pytest.fail(reason)
    with machine.sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


def compiled(source: str, library: Path, *defines: str) -> str:
    """A stand-in for one of NVIDIA's libraries, with its C interface."""
    if missing := machine.install("cc"):
        pytest.fail(missing)
    flags = [f"-D{define}" for define in defines]
    subprocess.run(["cc", "-shared", "-fPIC", *flags, "-o", str(library), str(HERE / source)], check=True)
    return str(library)


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compiled("nvml_stub.c", tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1")


@pytest.fixture
def nvml_pending(tmp_path: Path) -> str:
    """The same, but every card waits for a reset."""
    return compiled("nvml_stub.c", tmp_path / "libnvidia-ml.so.1", "ALL_PENDING")


@pytest.fixture
def nvml_hanging(tmp_path: Path) -> Iterator[str]:
    """The same, but it does not return while there is a file `hang` beside it."""
    hang = tmp_path / "hang"
    try:
        yield compiled("nvml_stub.c", tmp_path / "libnvidia-ml.so.1", f'HANGS_WHILE="{hang}"')
    finally:
        hang.unlink(missing_ok=True)


@pytest.fixture
def cuda(tmp_path: Path) -> Callable[..., str]:
    """A driver with one GPU of 96 MiB; defines say what is wrong with it."""
    return lambda *defines: compiled("cuda_stub.c", tmp_path / "libcuda.so.1", *defines)
