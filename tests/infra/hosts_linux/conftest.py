"""Accounts on this machine: only where root may make them, and swept away whatever a test did."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpuaas.infra.hosts.linux.accounts import Accounts, Terms
from gpuaas.infra.hosts.linux.layout import Layout
from tests.infra.hosts_linux import machine

# Accounts are made by root only; everything else of the host is tested by whoever runs the tests.
collect_ignore = [] if os.geteuid() == 0 else ["test_accounts.py", "test_hostile.py", "test_interrupted.py"]


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
