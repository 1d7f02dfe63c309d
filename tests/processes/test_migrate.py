"""`gpuaas migrate` as it is run: a process, an owner's URL, a real database."""

import subprocess
import sys
from collections.abc import AsyncIterator

import asyncpg
import pytest

from gpuaas.infra.postgres import migrate
from gpuaas.kit.ids import new_id
from tests.support.servers import DatabaseUrls

NEWEST = migrate.numbers()[-1]


@pytest.fixture
async def empty(template: DatabaseUrls) -> AsyncIterator[DatabaseUrls]:
    """A database nothing was migrated in."""
    name = f"t_{new_id().hex}"
    connection = await asyncpg.connect(template.superuser)
    await connection.execute(f"CREATE DATABASE {name} OWNER gpuaas_owner")
    yield template.named(name)
    await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await connection.close()


def ran(urls: DatabaseUrls | None, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {} if urls is None else {"GPUAAS_DATABASE_OWNER_URL": urls.owner, "GPUAAS_DATABASE_URL": urls.app}
    return subprocess.run(
        [sys.executable, "-m", "gpuaas", "migrate", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_a_database_goes_forward_back_and_forward_again(empty: DatabaseUrls):
    assert ran(empty, "--status").returncode == 1
    assert ran(empty, "--to", "1").stdout == "0000 → 0001\n"
    assert ran(empty).stdout == f"0001 → {NEWEST:04d}\n"
    assert ran(empty).stdout == f"already at {NEWEST:04d}\n"
    assert ran(empty, "--status").returncode == 0
    back = ran(empty, "--to", "1")
    assert back.returncode == 1
    assert "--down 1" in back.stderr
    unasked = ran(empty, "--down", "1")
    assert unasked.returncode == 1
    assert "--yes" in unasked.stderr
    assert ran(empty, "--down", "0", "--yes").stdout == f"{NEWEST:04d} → 0000\n"
    assert ran(empty).returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "missing GPUAAS_DATABASE_OWNER_URL"),
        (("--to", "1", "--down", "0"), "not allowed with"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words: tuple[str, ...], said: str):
    refused = ran(None, *words)
    assert refused.returncode != 0
    assert said in refused.stderr.splitlines()[-1]


def test_a_migration_that_does_not_exist_is_refused(empty: DatabaseUrls):
    refused = ran(empty, "--to", "999")
    assert refused.returncode == 1
    assert refused.stderr == f"gpuaas migrate: there is no migration 999; they go from 1 to {NEWEST}\n"
