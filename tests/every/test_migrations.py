"""Every migration, up and down, with data in the tables: what comes back up is what was there, and whole."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import asyncpg
import pytest

from gpuaas.infra.postgres import migrate
from gpuaas.kit.ids import new_id
from tests.every.ledger import tables
from tests.every.world import make_setting
from tests.support.servers import DatabaseUrls

APP = "gpuaas_app"
VERSIONS = ["base", *(f"{number:04d}" for number in migrate.numbers())]
SHAPE = """
SELECT 'column', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull::text,
       coalesce(pg_get_expr(d.adbin, d.adrelid), '')
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v')
UNION ALL SELECT 'index', tablename, indexname, indexdef, '', '' FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), '', ''
FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'policy', tablename, policyname, cmd, coalesce(qual, ''), coalesce(with_check, '')
FROM pg_policies WHERE schemaname = 'public'
UNION ALL SELECT 'table', relname, coalesce(obj_description(oid, 'pg_class'), ''), coalesce(relacl::text, ''),
       relrowsecurity::text, relforcerowsecurity::text
FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v')
UNION ALL SELECT 'function', proname,
       CASE prokind WHEN 'a' THEN pg_get_function_arguments(oid) ELSE pg_get_functiondef(oid) END,
       coalesce(proacl::text, ''), '', ''
FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION ALL SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(oid), '', ''
FROM pg_trigger WHERE NOT tgisinternal
ORDER BY 1, 2, 3, 4
"""


@pytest.fixture
async def empty(template: DatabaseUrls) -> AsyncIterator[DatabaseUrls]:
    """A database nobody has migrated."""
    name = f"t_{new_id().hex}"
    connection = await asyncpg.connect(template.superuser)
    await connection.execute(f"CREATE DATABASE {name} OWNER gpuaas_owner")
    yield template.named(name)
    await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await connection.close()


async def up(urls: DatabaseUrls, to: str) -> None:
    await asyncio.to_thread(migrate.upgrade, urls.owner, app_role=APP, to=to)


async def down(urls: DatabaseUrls, to: str) -> None:
    await asyncio.to_thread(migrate.downgrade, urls.owner, app_role=APP, to=to)


async def shape(url: str) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(url)
    found = [tuple(row) for row in await connection.fetch(SHAPE)]
    await connection.close()
    return found


async def fill(url: str) -> None:
    """A row in every table, as far as the world has one; then as far as a table's own defaults allow."""
    connection = await asyncpg.connect(url)
    await make_setting(connection, "https://issuer.example.com")
    await connection.close()


async def filled(url: str) -> set[str]:
    connection = await asyncpg.connect(url)
    found = {name for name in await tables(connection) if await connection.fetchval(f"SELECT count(*) FROM {name}")}
    await connection.close()
    return found


async def test_every_migration_goes_up_on_its_own(empty: DatabaseUrls):
    for version in VERSIONS[1:]:
        await up(empty, version)
        assert await migrate.current(empty.owner) == version


async def test_every_migration_goes_down_with_data_and_up_again_to_the_same_shape(empty: DatabaseUrls):
    await up(empty, "head")
    await fill(empty.superuser)
    assert len(await filled(empty.superuser)) > 12
    shapes = {}
    for version, below in reversed(list(zip(VERSIONS[1:], VERSIONS, strict=False))):
        shapes[version] = await shape(empty.superuser)
        await down(empty, below)
        assert await migrate.current(empty.owner) == ("" if below == "base" else below)
    left = [row for row in await shape(empty.superuser) if row[1] != "alembic_version"]
    assert left == [], "what went up has not gone down"
    for version in VERSIONS[1:]:
        await up(empty, version)
        assert await shape(empty.superuser) == shapes[version], f"{version} is another after down and up"
    await fill(empty.superuser)


@pytest.mark.parametrize(("below", "version"), list(pairwise(VERSIONS[1:])))
async def test_data_from_below_a_migration_outlive_it_up_and_down(empty: DatabaseUrls, below: str, version: str):
    await up(empty, "head")
    await fill(empty.superuser)
    await down(empty, below)
    before = await rows(empty.superuser)
    await up(empty, version)
    kept = await rows(empty.superuser)
    assert {name: kept[name] for name in before} == before
    await down(empty, below)
    assert await rows(empty.superuser) == before


async def rows(url: str) -> dict[str, int]:
    connection = await asyncpg.connect(url)
    found = {name: await connection.fetchval(f"SELECT count(*) FROM {name}") for name in await tables(connection)}
    await connection.close()
    return found


async def test_two_programs_that_migrate_at_once_take_turns(empty: DatabaseUrls):
    settings = {"GPUAAS_DATABASE_URL": empty.app, "GPUAAS_DATABASE_OWNER_URL": empty.owner}
    programs = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "gpuaas",
            "migrate",
            env=os.environ | settings,
            stderr=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for _ in range(3)
    ]
    said = await asyncio.gather(*(program.communicate() for program in programs))
    assert [program.returncode for program in programs] == [0, 0, 0], said
    assert await migrate.current(empty.owner) == migrate.head()


def test_every_migration_has_its_sql_both_ways() -> None:
    names = sorted(path.stem for path in (migrate.folder() / "versions").glob("[0-9]*.py"))
    sql = [path.name for path in (migrate.folder() / "sql").iterdir()]
    # A long one is cut into parts (0012_ledger.post.up.sql); its file in versions names them in order.
    whole = {f"{name.split('.')[0]}.{'.'.join(name.split('.')[-2:])}" for name in sql}
    assert whole == {f"{name}.{way}.sql" for name in names for way in ("up", "down")}
    said = "".join(path.read_text() for path in (migrate.folder() / "versions").glob("[0-9]*.py"))
    assert [name for name in sql if f'apply("{name}")' not in said] == []
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
