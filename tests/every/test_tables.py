"""Every table, under both walls: the second (row-level security) alone, the first (what the verbs ask for) alone."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from gpuaas.infra.http.context import Scope
from gpuaas.infra.http.operation import Operation
from gpuaas.kit.ids import new_id
from tests.every.allocation_world import put_allocation, put_certificate, put_flow, put_quota
from tests.every.asking import OPERATIONS, Asking
from tests.every.billing_world import put_adjustment, put_hold
from tests.every.invoice_world import put_invoice
from tests.every.ledger import tables
from tests.every.notification_world import put_told
from tests.every.payment_world import put_payment, put_refund
from tests.every.standing_world import put_budget, put_standing
from tests.every.usage_world import put_usage
from tests.every.world import Setting, make_setting
from tests.support.live import LiveApi, make_settings, mint_for, open_rates, serving
from tests.support.paying import paying
from tests.support.servers import DatabaseUrls, clone

APP = "gpuaas_app"
OF_ALEMBIC = "alembic_version"
# The column that says whose a row is, where it is not org_id, user_id or actor_id.
OWNER_COLUMN = {"orgs": "id", "users": "id", "notifications": "user_id", "emails": "user_id"}
# What holds for everybody is read by everybody.
READ_BY_ALL = {"policy_overrides": "org_id IS NULL"}


@pytest.fixture(scope="module")
async def app(database: DatabaseUrls) -> AsyncIterator[Any]:
    """As the programs connect."""
    connection = await asyncpg.connect(database.app)
    yield connection
    await connection.close()


@pytest.fixture(scope="module")
async def walls(superuser: Any) -> dict[str, str]:
    """Which wall each table says that stands around it."""
    rows = await superuser.fetch(
        "SELECT relname, coalesce(obj_description(c.oid, 'pg_class'), '') AS said FROM pg_class c "
        "WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition "
        "AND relname <> $1",
        OF_ALEMBIC,
    )
    return {row["relname"]: row["said"] for row in rows}


@pytest.fixture(scope="module")
async def tenants(superuser: Any) -> tuple[Setting, Setting]:
    ours, theirs = await make_setting(superuser, "https://i"), await make_setting(superuser, "https://i")
    for s in (ours, theirs):
        owner = s.people["owner"].id
        await s.put(
            "ssh_keys",
            id=new_id(),
            user_id=owner,
            name="k",
            algorithm="ssh-ed25519",
            public_key="k",
            fingerprint=s.mark,
        )
        await s.put(
            "idempotency_keys",
            actor_id=owner,
            key=s.mark,
            operation="x",
            request_hash=b"0" * 32,
            status=200,
            body=b"{}",
        )
        allocation_id = await put_allocation(s)
        await put_certificate(s, allocation_id)
        await put_flow(s, allocation_id)
        await put_quota(s)
        await put_hold(s)
        await put_adjustment(s)
        await put_usage(s)
        await put_refund(s, await put_payment(s, paid=True))
        await put_standing(s)
        await put_invoice(s)
        await put_budget(s)
        await put_told(s)
    return ours, theirs


def walled(walls: dict[str, str]) -> list[str]:
    return sorted(name for name, said in walls.items() if said.startswith(("tenant:", "actor:")))


async def owner_column(superuser: Any, table: str) -> str:
    if table in OWNER_COLUMN:
        return OWNER_COLUMN[table]
    rows = await superuser.fetch(
        "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0", table
    )
    return next(name for name in ("org_id", "user_id", "actor_id") if name in {row["attname"] for row in rows})


def owner_of(s: Setting, table: str, column: str) -> Any:
    return s.org_id if column == "org_id" or table == "orgs" else s.people["owner"].id


async def look(app: Any, s: Setting | None) -> None:
    org, actor = (s.org_id, s.people["owner"].id) if s else ("", "")
    await app.execute(f"SET app.org_id = '{org}'; SET app.actor_id = '{actor}'")


async def test_every_table_says_which_wall_stands_around_it(walls):
    assert [name for name, said in walls.items() if not said.startswith(("tenant: ", "actor: ", "platform: "))] == []


async def test_every_tenants_and_actors_table_has_forced_policies_for_all_that_is_granted(superuser, walls):
    missing = []
    for table in walled(walls):
        forced = await superuser.fetchrow(
            "SELECT relrowsecurity AND relforcerowsecurity AS forced FROM pg_class WHERE oid = $1::text::regclass",
            table,
        )
        if not forced["forced"]:
            missing.append((table, "not forced"))
        commands = {
            row["cmd"]
            for row in await superuser.fetch(
                "SELECT polcmd::text AS cmd FROM pg_policy WHERE polrelid = $1::text::regclass", table
            )
        }
        for privilege, letter in (("SELECT", "r"), ("INSERT", "a"), ("UPDATE", "w"), ("DELETE", "d")):
            if await granted(superuser, table, privilege) and not commands & {letter, "*"}:
                missing.append((table, privilege))
    assert missing == []


async def granted(superuser: Any, table: str, privilege: str) -> bool:
    column = "" if privilege == "DELETE" else "OR has_any_column_privilege($1, $2, $3)"
    return bool(await superuser.fetchval(f"SELECT has_table_privilege($1, $2, $3) {column}", APP, table, privilege))


async def test_what_belongs_to_no_tenant_has_no_tenants_column(superuser, walls):
    """A platform table with an organisation in it is one that has to say why: it is read by the platform alone."""
    named = [
        name
        for name, said in walls.items()
        if said.startswith("platform:")
        and await superuser.fetchval(
            "SELECT count(*) FROM pg_attribute WHERE attrelid = $1::text::regclass "
            "AND attname = 'org_id' AND attnum > 0",
            name,
        )
    ]
    assert named == ["dead_letters"]


async def test_views_see_with_the_eyes_of_who_asks(superuser):
    blind = await superuser.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('v', 'm') "
        "AND NOT coalesce(reloptions::text LIKE '%security_invoker=true%', false)"
    )
    assert blind == []


async def test_the_second_wall_alone_hides_every_row_of_another_tenant(app, superuser, walls, tenants):
    ours, theirs = tenants
    await look(app, ours)
    for table in walled(walls):
        column = await owner_column(superuser, table)
        mine, other = owner_of(ours, table, column), owner_of(theirs, table, column)
        counted = f"SELECT count(*) FROM {table} WHERE {column} = $1"
        assert await superuser.fetchval(counted, other) > 0, f"the world has no row in {table}: add one"
        assert await app.fetchval(counted, mine) > 0, f"{table}: one's own rows cannot be seen"
        assert await app.fetchval(counted, other) == 0, f"{table}: another tenant's rows are seen"
        visible = await app.fetch(f"SELECT DISTINCT {column} AS owner FROM {table}")
        foreign = {row["owner"] for row in visible} & {theirs.org_id, *(p.id for p in theirs.people.values())}
        assert foreign == set(), table


async def test_the_second_wall_alone_refuses_every_write_to_another_tenant(app, superuser, walls, tenants):
    ours, theirs = tenants
    await look(app, ours)
    for table in walled(walls):
        column = await owner_column(superuser, table)
        other = owner_of(theirs, table, column)
        row = await superuser.fetchrow(f"SELECT * FROM {table} WHERE {column} = $1 LIMIT 1", other)
        if await granted(superuser, table, "INSERT"):
            places = ", ".join(f"${n}" for n in range(1, len(row) + 1))
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await app.execute(f"INSERT INTO {table} VALUES ({places})", *row.values())
        if await granted(superuser, table, "UPDATE"):
            changed = await _updatable(superuser, table)
            said = await app.execute(f"UPDATE {table} SET {changed} = {changed} WHERE {column} = $1", other)
            assert said == "UPDATE 0", table
        if await granted(superuser, table, "DELETE"):
            assert await app.execute(f"DELETE FROM {table} WHERE {column} = $1", other) == "DELETE 0", table


async def test_the_second_wall_alone_lets_no_row_be_given_away(app, superuser, walls, tenants):
    ours, theirs = tenants
    await look(app, ours)
    for table in walled(walls):
        column = await owner_column(superuser, table)
        if not await superuser.fetchval("SELECT has_column_privilege($1, $2, $3, 'UPDATE')", APP, table, column):
            continue
        with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.IntegrityConstraintViolationError)):
            await app.execute(
                f"UPDATE {table} SET {column} = $1 WHERE {column} = $2",
                owner_of(theirs, table, column),
                owner_of(ours, table, column),
            )


@pytest.mark.parametrize("how", ["unset", "empty"])
async def test_without_a_setting_nothing_is_seen(database, app, walls, tenants, how):
    connection = await asyncpg.connect(database.app)
    try:
        if how == "empty":
            await look(connection, None)
        for table in walled(walls):
            besides = f"WHERE NOT ({READ_BY_ALL[table]})" if table in READ_BY_ALL else ""
            assert await connection.fetchval(f"SELECT count(*) FROM {table} {besides}") == 0, table
    finally:
        await connection.close()


async def test_a_setting_that_is_no_id_sees_nothing(database, walls, tenants):
    connection = await asyncpg.connect(database.app)
    await connection.execute("SET app.org_id = 'x'; SET app.actor_id = '%'")
    for table in walled(walls):
        with pytest.raises(asyncpg.DataError):
            await connection.fetchval(f"SELECT count(*) FROM {table}")
    await connection.close()


@pytest.mark.parametrize("role", ["app", "owner", "superuser"])
async def test_append_only_tables_keep_their_rows_whoever_asks(database, superuser, walls, tenants, role):
    kept = [name for name, said in walls.items() if "append-only" in said]
    assert {"audit_log", "audit_seals", "audit_checkpoints"} <= set(kept)
    connection = await asyncpg.connect(getattr(database, role))
    await connection.execute("SET app.org_id = '*'")
    for table in kept:
        column = await superuser.fetchval(
            "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum = 1", table
        )
        rows = await superuser.fetchval(f"SELECT count(*) FROM {table}")
        for statement in (
            f"UPDATE {table} SET {column} = {column}",
            f"DELETE FROM {table}",
            f"TRUNCATE {table} CASCADE",
        ):
            try:
                said = await connection.execute(statement)
            except asyncpg.InsufficientPrivilegeError:
                continue
            assert role != "app", f"{statement} is granted"
            assert said.endswith(" 0"), statement  # the owner sees no row to change, or there is none
            assert rows == 0 or role == "owner"
    await connection.close()


async def test_the_app_owns_nothing_and_makes_nothing(app, superuser):
    owned = "SELECT count(*) FROM pg_class WHERE pg_get_userbyid(relowner) = $1"
    assert await superuser.fetchval(owned, APP) == 0
    rights = await superuser.fetchrow(
        "SELECT rolsuper, rolbypassrls, rolcreatedb, rolcreaterole, rolreplication FROM pg_roles WHERE rolname = $1",
        APP,
    )
    assert not any(rights.values())
    assert await superuser.fetchval("SELECT count(*) FROM pg_auth_members WHERE pg_get_userbyid(member) = $1", APP) == 0
    for statement in (
        "CREATE TABLE made ()",
        "CREATE SCHEMA made",
        "CREATE FUNCTION made() RETURNS int RETURN 1",
        "ALTER TABLE orgs DISABLE ROW LEVEL SECURITY",
        "SET ROLE gpuaas_owner",
        "CREATE POLICY made ON orgs USING (true)",
        "DROP TABLE orgs",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await app.execute(statement)


async def test_partitions_are_reached_through_their_table_only(superuser):
    """Their parent's policies do not hold for whoever asks them directly."""
    reachable = await superuser.fetch(
        "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r' AND relnamespace = 'public'::regnamespace "
        "AND has_table_privilege($1, oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')",
        APP,
    )
    assert reachable == []


async def test_what_the_app_may_run_as_the_owner_has_a_fixed_search_path(superuser):
    loose = await superuser.fetch(
        "SELECT proname FROM pg_proc WHERE prosecdef AND pronamespace = 'public'::regnamespace "
        "AND NOT coalesce(proconfig::text LIKE '%search_path%', false)"
    )
    assert loose == []


# The first wall alone -------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
async def unwalled(template: DatabaseUrls, nats_url: str) -> AsyncIterator[Asking]:
    """The API on a database whose row-level security is switched off: what is left is what the verbs ask for."""
    async with clone(template) as urls:
        connection = await asyncpg.connect(urls.superuser)
        for table in await tables(connection):
            await connection.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
        await open_rates(urls.superuser)
        settings = make_settings(urls.app, nats_url, **paying())
        mint = await mint_for(settings, urls.app)
        async with serving(settings) as client:
            yield Asking(LiveApi(settings.public_url, settings, client, mint), connection)
        await connection.close()


OF_TENANTS = [op for op in OPERATIONS if op.scope in (Scope.ORG, Scope.PROJECT, Scope.USER)]


@pytest.mark.parametrize("op", OF_TENANTS, ids=lambda op: op.id)
async def test_the_first_wall_alone_shows_and_touches_nothing_of_another_tenant(unwalled: Asking, op: Operation):
    mine, theirs = await unwalled.ask(op, "owner"), await unwalled.ask(op, "owner")
    before = await rows_of(unwalled.sql, theirs.setting)
    own = await unwalled.send(mine)
    assert own.status_code == op.status, own.text
    named = [theirs.setting.mark, str(theirs.setting.org_id), str(theirs.setting.project_id)]
    assert not [text for text in named if text in own.text]
    again = await unwalled.ask(op, "owner", mine.setting)
    if op.scope is not Scope.USER:
        scope = {"org_id": theirs.setting.org_id, "project_id": theirs.setting.project_id}
        foreign = await unwalled.send(again.but(path=theirs.example.path | scope))
        assert foreign.status_code == 404, foreign.text
    if set(op.path_params) - {"org_id", "project_id", "name", "sku_id"}:
        mixed = await unwalled.send(again.but(path=theirs.example.path))
        assert mixed.status_code == 404, mixed.text
    assert await rows_of(unwalled.sql, theirs.setting) == before


async def rows_of(sql: Any, s: Setting) -> dict[str, str]:
    """All rows that name the tenant, hashed by table."""
    asked = " UNION ALL ".join(
        f"SELECT '{name}' AS name, md5(string_agg(t::text, '' ORDER BY t::text)) AS hash FROM {name} t "
        "WHERE position($1 IN t::text) > 0 OR position($2 IN t::text) > 0"
        for name in await tables(sql)
    )
    return {row["name"]: row["hash"] for row in await sql.fetch(asked, str(s.org_id), s.mark)}


async def _updatable(superuser: Any, table: str) -> str:
    return str(
        await superuser.fetchval(
            "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped "
            "AND has_column_privilege($2, attrelid, attname, 'UPDATE') ORDER BY attnum DESC LIMIT 1",
            table,
            APP,
        )
    )
