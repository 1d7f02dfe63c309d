"""An insider with all rights edits the log: whatever he touches is found and named. And the application itself is
refused to touch anything."""

import asyncpg
import pytest

from gpuaas.domains.audit.chain import FIELDS
from gpuaas.domains.audit.service import chain_verify
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.ids import new_id
from tests.support.audit_trail import seal_all, write

ALL = Sight(PLATFORM)
ROWS = 12


@pytest.fixture(scope="module")
async def sealed(db: Database, keys, superuser):
    """The ids of a sealed log, in the order of its links; every row has every column filled."""
    from gpuaas.domains.policy.models import Override, Place
    from gpuaas.domains.policy.reader import MemoryPolicy

    policy = MemoryPolicy()
    policy.load(1, [Override(key="audit.checkpoint_rows", place=Place(), value=1)])
    for _ in range(ROWS // 4):
        await write(db, 4, new_id(), project_id=new_id())
        await seal_all(db, keys, policy)
    return [row["audit_id"] for row in await superuser.fetch("SELECT audit_id FROM audit_seals ORDER BY seq")]


@pytest.fixture
async def tamper(database, db, keys, sealed):
    """Does as the superuser what is asked, tells what a check finds, and puts everything back."""
    connection = await asyncpg.connect(database.superuser)
    tables = ("audit_log", "audit_seals", "audit_checkpoints", "audit_head", "audit_unsealed")
    for table in tables:
        await connection.execute(f"CREATE TABLE kept_{table} AS TABLE {table}")

    async def do(*statements: str, **_: object) -> list[tuple[str, str]]:
        await connection.execute("SET session_replication_role = replica")  # past all triggers
        for statement in statements:
            await connection.execute(statement)
        async with db.snapshot(ALL) as tx:
            found = await chain_verify(tx, keys)
        assert found.flaw_count >= len(found.flaws)
        return [(flaw.subject, flaw.problem) for flaw in found.flaws]

    yield do
    await connection.execute("SET session_replication_role = replica")
    for table in tables:
        await connection.execute(f"DELETE FROM {table}")
        await connection.execute(f"INSERT INTO {table} SELECT * FROM kept_{table}")
        await connection.execute(f"DROP TABLE kept_{table}")
    await connection.close()


NEW = {
    "id": "gen_random_uuid()",
    "at": "at + interval '1 microsecond'",
    "details": "details || '{\"y\": 1}'",
    "actor_id": "gen_random_uuid()",
    "org_id": "gen_random_uuid()",
    "project_id": "gen_random_uuid()",
    "subject_id": "gen_random_uuid()",
}


async def test_untouched_nothing_is_found(tamper):
    assert await tamper() == []


@pytest.mark.parametrize("column", [field for field in FIELDS if field != "id"])
@pytest.mark.parametrize("which", [0, ROWS // 2, ROWS - 1])
async def test_a_change_of_any_column_of_any_row_is_found_and_the_row_named(tamper, sealed, column, which):
    new = NEW.get(column, f"{column} || 'x'")
    found = await tamper(f"UPDATE audit_log SET {column} = {new} WHERE id = '{sealed[which]}'")
    assert [subject for subject, _ in found] == [f"audit row {sealed[which]}"]


@pytest.mark.parametrize("column", ["actor_id", "org_id", "project_id", "subject_id"])
async def test_a_value_taken_out_is_found(tamper, sealed, column):
    found = await tamper(f"UPDATE audit_log SET {column} = NULL WHERE id = '{sealed[3]}'")
    assert [subject for subject, _ in found] == [f"audit row {sealed[3]}"]


async def test_the_order_of_keys_or_a_number_written_otherwise_in_details_is_no_hiding_place(tamper, sealed):
    found = await tamper(f"UPDATE audit_log SET details = '{{\"name\": \"x \"}}' WHERE id = '{sealed[3]}'")
    assert [subject for subject, _ in found] == [f"audit row {sealed[3]}"]


async def test_a_row_that_got_another_id_is_found_under_both(tamper, sealed):
    other = new_id()
    found = await tamper(
        f"UPDATE audit_log SET id = '{other}' WHERE id = '{sealed[3]}'",
        f"UPDATE audit_log SET at = at - interval '1 hour' WHERE id = '{other}'",
    )
    assert {subject for subject, _ in found} == {f"audit row {sealed[3]}", f"audit row {other}"}


@pytest.mark.parametrize("which", [0, ROWS // 2, ROWS - 1])
async def test_a_deleted_row_is_found(tamper, sealed, which):
    found = await tamper(f"DELETE FROM audit_log WHERE id = '{sealed[which]}'")
    assert [subject for subject, _ in found] == [f"audit row {sealed[which]}"]


async def test_a_row_put_in_is_found(tamper, sealed):
    other = new_id()
    found = await tamper(
        f"INSERT INTO audit_log SELECT '{other}', at - interval '1 hour', action, operation, actor_kind, actor_id, "
        f"actor_name, org_id, project_id, subject_id, correlation_id, client_ip, details FROM audit_log "
        f"WHERE id = '{sealed[0]}'"
    )
    assert [subject for subject, _ in found] == [f"audit row {other}"]


async def test_a_row_dated_in_the_future_is_found(tamper, sealed):
    found = await tamper(f"UPDATE audit_log SET at = now() + interval '1 day' WHERE id = '{sealed[0]}'")
    assert {subject for subject, _ in found} == {f"audit row {sealed[0]}"}


async def test_a_deleted_row_with_its_seal_is_found(tamper, sealed):
    found = await tamper(
        f"DELETE FROM audit_log WHERE id = '{sealed[5]}'", f"DELETE FROM audit_seals WHERE audit_id = '{sealed[5]}'"
    )
    assert f"audit row {sealed[6]}" in {subject for subject, _ in found}


async def test_a_row_taken_off_the_sealers_list_is_found(tamper, db, superuser):
    written = (await write(db, 1))[0]
    found = await tamper(
        f"DELETE FROM audit_unsealed WHERE audit_id = '{written}'",
        f"UPDATE audit_log SET at = at - interval '2 minutes' WHERE id = '{written}'",
    )
    assert (f"audit row {written}", "not sealed 60 seconds after it was written") in found


@pytest.mark.parametrize(
    ("column", "new"),
    [
        ("seq", "seq + 100"),
        ("version", "version + 1"),
        ("prev_hash", "sha256(prev_hash)"),
        ("hash", "sha256(hash)"),
        ("audit_id", "gen_random_uuid()"),
    ],
)
@pytest.mark.parametrize("which", [1, 6, 12])
async def test_a_change_of_any_column_of_any_seal_is_found(tamper, column, new, which):
    new = f"'{new_id()}'" if column == "audit_id" else new
    assert await tamper(f"UPDATE audit_seals SET {column} = {new} WHERE seq = {which}")


@pytest.mark.parametrize(
    ("column", "new"),
    [
        ("seq", "seq - 1"),
        ("hash", "sha256(hash)"),
        ("at", "at + interval '1 microsecond'"),
        ("key_id", "key_id || 'x'"),
        ("signature", "sha256(signature) || sha256(signature)"),
    ],
)
async def test_a_change_of_any_column_of_a_checkpoint_is_found(tamper, column, new):
    found = await tamper(f"UPDATE audit_checkpoints SET {column} = {new} WHERE seq = {ROWS}")
    assert all(subject.startswith("checkpoint ") for subject, _ in found)
    assert found


async def test_a_log_written_anew_from_a_row_on_is_found_by_its_checkpoints(tamper, db, sealed, superuser):
    """All links after the changed row made again, consistently, by somebody without the signing key."""
    from gpuaas.domains.audit import store
    from gpuaas.domains.audit.chain import links

    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute(f"UPDATE audit_log SET actor_name = 'mallory' WHERE id = '{sealed[4]}'")
    async with db.read(ALL) as tx:
        chain = await store.chain(tx, seq=0, audit_id=sealed[0], limit=ROWS)
    anew = links([row for _, row in chain[4:] if row], after_seq=4, after_hash=chain[3][0].hash)
    statements = [
        f"UPDATE audit_seals SET prev_hash = '\\x{link.prev_hash.hex()}', hash = '\\x{link.hash.hex()}' "
        f"WHERE seq = {link.seq}"
        for link in anew
    ]
    found = await tamper(*statements, f"UPDATE audit_head SET hash = '\\x{anew[-1].hash.hex()}'")
    await superuser.execute("SET session_replication_role = DEFAULT")
    assert {subject for subject, _ in found} == {"checkpoint 8", "checkpoint 12"}


async def test_an_end_cut_off_is_found_by_its_checkpoint(tamper):
    found = await tamper(
        "DELETE FROM audit_log WHERE id IN (SELECT audit_id FROM audit_seals WHERE seq > 9)",
        "DELETE FROM audit_seals WHERE seq > 9",
        "UPDATE audit_head SET seq = 9, hash = (SELECT hash FROM audit_seals WHERE seq = 9)",
    )
    assert found == [("checkpoint 12", "no link of the chain has this number and hash")]


REFUSED = [
    "UPDATE {t} SET {c} = {c}",
    "DELETE FROM {t}",
    "TRUNCATE {t}",
    "TRUNCATE {t} CASCADE",
    "DROP TABLE {t}",
    "ALTER TABLE {t} DISABLE TRIGGER ALL",
    "ALTER TABLE {t} DISABLE ROW LEVEL SECURITY",
    "ALTER TABLE {t} ADD COLUMN x integer",
    "ALTER TABLE {t} RENAME TO gone",
    "ALTER TABLE {t} OWNER TO gpuaas_app",
    "CREATE TRIGGER hush BEFORE INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "DROP TRIGGER {t}_keep ON {t}",
    "CREATE RULE hush AS ON INSERT TO {t} DO INSTEAD NOTHING",
    "LOCK TABLE {t} IN ACCESS EXCLUSIVE MODE",
    "CREATE POLICY x ON {t}",
    "INSERT INTO {t} SELECT * FROM {t} ON CONFLICT DO NOTHING; UPDATE {t} SET {c} = {c}",
    "MERGE INTO {t} t USING (SELECT 1) s ON true WHEN MATCHED THEN DELETE",
    "COPY {t} FROM PROGRAM 'true'",
]


@pytest.mark.parametrize("sql", REFUSED)
@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("audit_log", "action"),
        ("audit_seals", "seq"),
        ("audit_checkpoints", "seq"),
    ],
)
async def test_the_application_can_only_read_and_append(database, sealed, superuser, table, column, sql):
    before = await superuser.fetchval(f"SELECT count(*) FROM {table}")
    connection = await asyncpg.connect(database.app)
    await connection.execute("SET app.org_id = '*'")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with connection.transaction():
            await connection.execute(sql.format(t=table, c=column))
    await connection.execute(f"GRANT ALL ON {table} TO gpuaas_app")  # PostgreSQL answers that with a warning
    await connection.close()
    assert await superuser.fetchval(f"SELECT count(*) FROM {table}") == before
    assert not await superuser.fetchval(
        "SELECT has_table_privilege('gpuaas_app', $1, 'UPDATE, DELETE, TRUNCATE, TRIGGER, REFERENCES')", table
    )


@pytest.mark.parametrize(
    "sql",
    [
        "SET session_replication_role = replica",
        "SET ROLE gpuaas_owner",
        "SET SESSION AUTHORIZATION postgres",
        "CREATE TABLE public.x ()",
        "CREATE FUNCTION public.refuse_change() RETURNS trigger LANGUAGE sql AS ''",
        "DROP FUNCTION refuse_change",
        "ALTER FUNCTION refuse_change() SET search_path = ''",
        "SELECT prune_partitions('audit_log', now() - interval '1 year')",
        "CREATE EVENT TRIGGER x ON sql_drop EXECUTE FUNCTION refuse_change()",
        "DROP SCHEMA public CASCADE",
        "DROP OWNED BY gpuaas_owner",
    ],
)
async def test_the_application_cannot_get_around_the_walls(database, sql):
    connection = await asyncpg.connect(database.app)
    with pytest.raises((asyncpg.PostgresError, asyncpg.InternalClientError)):
        await connection.execute(sql)
    await connection.close()


async def test_partitions_themselves_are_not_open_to_the_application(database, superuser):
    parts = await superuser.fetch(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
        "WHERE i.inhparent IN ('audit_log'::regclass, 'audit_seals'::regclass)"
    )
    assert len(parts) >= 10
    connection = await asyncpg.connect(database.app)
    for part in parts:
        for sql in ("DELETE FROM {}", "TRUNCATE {}", "DROP TABLE {}", "SELECT FROM {}"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(sql.format(part["relname"]))
    await connection.close()


async def test_even_the_owner_is_stopped_by_the_triggers(database, sealed, superuser):
    connection = await asyncpg.connect(database.owner)
    await connection.execute("SET app.org_id = '*'")
    part = await superuser.fetchval("SELECT tableoid::regclass::text FROM audit_log WHERE id = $1", sealed[0])
    for sql in (
        "DELETE FROM audit_seals",
        "DELETE FROM audit_checkpoints",
        f"DELETE FROM {part}",
        "TRUNCATE audit_log",
        "TRUNCATE audit_seals",
        "TRUNCATE audit_checkpoints",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="append-only"):
            await connection.execute(sql)
    assert await connection.execute("DELETE FROM audit_log") == "DELETE 0", "no policy lets it see a row to delete"
    await connection.close()
