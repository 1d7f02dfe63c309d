"""The embedded PostgreSQL: it keeps what it acknowledged, and comes back from whatever was done to it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from gpuaas.infra.embedded.child import identify, is_alive, processes_in
from gpuaas.infra.embedded.errors import EmbeddedError
from gpuaas.infra.embedded.postgres import EmbeddedPostgres


@pytest.fixture
def postgres(data_dir: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(data_dir, durable=False)
    yield server
    server.kill()


def value(url: str, sql: str) -> object:
    async def ask() -> object:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()

    return asyncio.run(ask())


def test_it_starts_stops_and_starts_again_with_the_same_urls_and_data(postgres):
    urls = postgres.start()
    value(urls.owner, "CREATE TABLE kept AS SELECT 42 AS answer")
    postgres.stop()
    assert postgres.pid is None
    assert postgres.start() == urls
    assert value(urls.owner, "SELECT answer FROM kept") == 42


def test_it_is_version_18_and_speaks_utf8_in_utc(postgres):
    urls = postgres.start()
    assert str(value(urls.app, "SHOW server_version")).startswith("18.")
    assert value(urls.app, "SHOW server_encoding") == "UTF8"
    assert value(urls.app, "SHOW timezone") == "UTC"


def test_what_was_committed_survives_kill_9_of_the_server(data_dir):
    server = EmbeddedPostgres(data_dir)
    urls = server.start()
    try:
        assert value(urls.superuser, "SHOW fsync") == "on"
        assert value(urls.superuser, "SHOW synchronous_commit") == "on"
        value(urls.owner, "CREATE TABLE kept AS SELECT 42 AS answer")
        server.kill()
        server.start()
        assert value(urls.owner, "SELECT answer FROM kept") == 42
    finally:
        server.kill()


def test_the_owner_owns_the_database_and_the_application_may_only_connect(postgres):
    urls = postgres.start()
    owner = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()"
    assert value(urls.app, owner) == "gpuaas_owner"
    powers = "SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls OR rolreplication FROM pg_roles"
    assert value(urls.app, f"{powers} WHERE rolname = current_user") is False
    assert value(urls.app, f"{powers} WHERE rolname = 'gpuaas_owner'") is False
    for forbidden in ("CREATE TABLE public.x()", "CREATE SCHEMA x", "CREATE TEMP TABLE x()"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            value(urls.app, forbidden)


def test_nobody_gets_in_without_the_password_not_even_over_the_socket(postgres):
    urls = postgres.start()
    port = int(urls.app.rpartition(":")[2].partition("/")[0])
    for host in ("127.0.0.1", str(postgres.socket_directory)):
        with pytest.raises(asyncpg.InvalidPasswordError):
            asyncio.run(asyncpg.connect(host=host, port=port, user="postgres", password="wrong", database="gpuaas"))


def test_a_second_start_on_the_same_data_is_refused_in_one_line(postgres, data_dir):
    postgres.start()
    with pytest.raises(EmbeddedError, match="in use by another start") as refusal:
        EmbeddedPostgres(data_dir).start()
    assert "\n" not in str(refusal.value)
    assert postgres.is_ready()


def test_two_data_directories_run_side_by_side(postgres, data_dir):
    other = EmbeddedPostgres(data_dir / "other", durable=False)
    try:
        first, second = postgres.start(), other.start()
        value(first.owner, "CREATE TABLE only_here()")
        assert value(second.owner, "SELECT to_regclass('only_here')") is None
    finally:
        other.kill()


ORPHAN = """
import sys, time
from pathlib import Path
from gpuaas.infra.embedded import child
child._libc.prctl = lambda *_: 0   # the kernel is not asked to tell: recovery must not depend on it
from gpuaas.infra.embedded.postgres import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]), durable=False)
server.start()
print(server.pid, flush=True)
time.sleep(600)
"""


def test_a_server_left_by_a_killed_starter_is_ended_and_its_data_kept(postgres, data_dir):
    urls = postgres.start()
    value(urls.owner, "CREATE TABLE kept AS SELECT 42 AS answer")
    postgres.stop()
    starter = subprocess.Popen([sys.executable, "-c", ORPHAN, str(data_dir)], stdout=subprocess.PIPE)
    assert starter.stdout is not None
    orphan = identify(int(starter.stdout.readline()))
    assert orphan is not None
    starter.kill()
    starter.wait()
    starter.stdout.close()
    time.sleep(0.2)
    assert is_alive(orphan)
    assert postgres.start() == urls
    assert not is_alive(orphan)
    assert value(urls.owner, "SELECT answer FROM kept") == 42


def test_the_kernel_ends_the_server_when_its_starter_is_killed(data_dir):
    told = ORPHAN.replace("child._libc.prctl = lambda *_: 0", "")
    starter = subprocess.Popen([sys.executable, "-c", told, str(data_dir)], stdout=subprocess.PIPE)
    assert starter.stdout is not None
    server = identify(int(starter.stdout.readline()))
    assert server is not None
    starter.kill()
    starter.wait()
    starter.stdout.close()
    give_up_at = time.monotonic() + 10
    while is_alive(server):
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


def test_a_pid_file_that_names_somebody_elses_process_is_no_obstacle(postgres):
    postgres.start()
    account = postgres.home.joinpath("data").stat()
    pid_file = postgres.home / "data" / "postmaster.pid"
    content = pid_file.read_text()
    postgres.kill()
    identity = {} if os.geteuid() else {"user": account.st_uid, "group": account.st_gid, "extra_groups": []}
    bystander = subprocess.Popen(["sleep", "60"], **identity)
    try:
        pid_file.write_text("\n".join([str(bystander.pid), *content.splitlines()[1:]]) + "\n")
        postgres.start()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_start_that_died_halfway_through_making_the_database_leaves_nothing_in_the_way(postgres, data_dir):
    (data_dir / "postgres").mkdir()
    (data_dir / "postgres").chmod(0o711)
    (data_dir / "postgres" / "data.new").mkdir()
    (data_dir / "postgres" / "data.new" / "PG_VERSION").write_text("18\n")
    assert value(postgres.start().app, "SELECT 1") == 1
    assert not (data_dir / "postgres" / "data.new").exists()


def test_a_database_of_another_major_version_is_refused_in_one_line(postgres):
    postgres.start()
    postgres.stop()
    (postgres.home / "data" / "PG_VERSION").write_text("17\n")
    with pytest.raises(EmbeddedError, match="made by PostgreSQL 17, this is 18"):
        postgres.start()


def test_lost_passwords_are_named_not_replaced(postgres, data_dir):
    postgres.start()
    postgres.stop()
    (data_dir / "secrets.json").unlink()
    with pytest.raises(EmbeddedError, match="lacks postgres_password"):
        postgres.start()


def test_secrets_others_may_read_are_refused(postgres, data_dir):
    postgres.start()
    postgres.stop()
    (data_dir / "secrets.json").chmod(0o640)
    with pytest.raises(EmbeddedError, match="may be read by others"):
        postgres.start()


def test_no_secret_is_on_a_command_line_or_in_a_file_others_may_read(postgres, data_dir):
    postgres.start()
    secrets = (data_dir / "secrets.json").stat()
    assert secrets.st_mode & 0o077 == 0
    command = Path(f"/proc/{postgres.pid}/cmdline").read_text()
    assert not [
        word for word in (data_dir / "secrets.json").read_text().split('"') if len(word) > 30 and word in command
    ]


def test_a_data_directory_with_a_path_too_long_for_a_socket_works(data_dir):
    deep = data_dir / ("d" * 60) / ("e" * 60)
    deep.parent.mkdir()
    deep.parent.chmod(0o711)
    server = EmbeddedPostgres(deep, durable=False)
    try:
        urls = server.start()
        port = int(urls.app.rpartition(":")[2].partition("/")[0])
        assert (server.socket_directory / f".s.PGSQL.{port}").exists()
        assert server.socket_directory.stat().st_mode & 0o077 == 0
    finally:
        server.kill()
        shutil.rmtree(server.socket_directory)


def test_nothing_of_it_runs_after_stop_or_kill(postgres):
    for end in (postgres.stop, postgres.kill):
        postgres.start()
        cluster = postgres.home / "data"
        assert processes_in(cluster, "postgres")
        end()
        assert not processes_in(cluster, "postgres")


def test_a_server_that_cannot_start_says_why_in_one_line(postgres):
    postgres.start()
    postgres.stop()
    (postgres.home / "data" / "global" / "pg_control").unlink()
    with pytest.raises(EmbeddedError, match="pg_control") as refusal:
        postgres.start()
    assert "\n" not in str(refusal.value)


def test_an_interrupted_start_leaves_no_server(data_dir):
    starter = subprocess.Popen(
        [sys.executable, "-c", ORPHAN, str(data_dir)],
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 # one thread here; a shell's `&` ignores it
    )
    give_up_at = time.monotonic() + 30
    while not processes_in(data_dir / "postgres" / "data", "postgres"):
        assert time.monotonic() < give_up_at
    starter.send_signal(signal.SIGINT)
    starter.wait(30)
    while processes_in(data_dir / "postgres" / "data", "postgres"):
        assert time.monotonic() < give_up_at
        time.sleep(0.05)
