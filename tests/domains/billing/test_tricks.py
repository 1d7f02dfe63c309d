"""What a program with the application's role may try on the ledger, and the owner and a superuser in passing: refused.
What a superuser does past the triggers is named by the proof of the books."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from gpuaas.domains.billing.anchors import service as anchors
from gpuaas.infra.postgres.database import Database
from tests.support.purse import Purse, purse_of
from tests.support.servers import DatabaseUrls

LEDGER = ("ledger_transactions", "ledger_entries", "ledger_keys", "ledger_accounts", "ledger_holds")
USAGE = ("meters", "meter_pauses", "meter_causes", "usage")
# The programs add to these themselves, and may do nothing else.
ADDED_TO = ("audit_log", "audit_seals", "audit_checkpoints", "invoices", "invoice_files")
TABLES = LEDGER + USAGE
ADDING = ["INSERT INTO {t} SELECT * FROM {t}", "COPY {t} FROM STDIN"]
TRICKS = [
    "UPDATE {t} SET {c} = {c}",
    "DELETE FROM {t}",
    "TRUNCATE {t} CASCADE",
    "TRUNCATE ONLY {t}",
    "WITH gone AS (DELETE FROM {t} RETURNING *) SELECT count(*) FROM gone",
    "MERGE INTO {t} a USING {t} b ON a.{c} = b.{c} WHEN MATCHED THEN DELETE",
    "ALTER TABLE {t} DISABLE TRIGGER ALL",
    "ALTER TABLE {t} DISABLE TRIGGER USER",
    "ALTER TABLE {t} ENABLE REPLICA TRIGGER {t}_keep",
    "DROP TRIGGER {t}_keep ON {t}",
    "ALTER TABLE {t} ADD COLUMN made integer",
    "ALTER TABLE {t} SET SCHEMA pg_temp",
    "CREATE INDEX made ON {t} ({c})",
    "ALTER TABLE {t} DISABLE ROW LEVEL SECURITY",
    "ALTER TABLE {t} NO FORCE ROW LEVEL SECURITY",
    "ALTER TABLE {t} RENAME TO made",
    "CREATE TRIGGER made BEFORE INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "CREATE RULE made AS ON INSERT TO {t} DO INSTEAD NOTHING",
    "CREATE POLICY made ON {t} USING (true)",
    "BEGIN; LOCK TABLE {t} IN ACCESS EXCLUSIVE MODE",
    "SELECT * FROM {t} FOR UPDATE",
    "DROP TABLE {t}",
    "ALTER TABLE {t} OWNER TO gpuaas_app",
]
SESSION_TRICKS = [
    "SET session_replication_role = replica",
    "SET ROLE gpuaas_owner",
    "SET SESSION AUTHORIZATION gpuaas_owner",
    "SET LOCAL session_replication_role = replica",
    "SELECT set_config('session_replication_role', 'replica', false)",
    "ALTER ROLE gpuaas_app SET session_replication_role = replica",
    "ALTER ROLE gpuaas_app SUPERUSER",
    "ALTER FUNCTION refuse_change() RENAME TO made",
    "DROP FUNCTION refuse_change() CASCADE",
    "CREATE SCHEMA made",
    "CREATE TABLE public.made (n integer)",
    "CREATE EVENT TRIGGER made ON ddl_command_start EXECUTE FUNCTION refuse_change()",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "LOAD 'auto_explain'",
    "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
    "CREATE OR REPLACE FUNCTION public.ledger_held(account uuid) RETURNS bigint RETURN 0",
    "SELECT ledger_enter(NULL)",
    "SELECT ledger_account(NULL, 'revenue', 'USD', 0::smallint)",
    "SELECT prune_partitions('ledger_entries', now() - interval '1 year')",
]


@pytest.fixture(scope="module")
async def purse(db: Database) -> AsyncIterator[Purse]:
    async with purse_of(db) as made:
        await made.top_up(10_000_000)
        for micros in (-1_000_000, -2_000_000, -3_000_000):
            await made.post(micros)
        yield made


@pytest.fixture
async def app(database: DatabaseUrls, purse: Purse) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(database.app)
    await connection.execute("SET app.org_id = '*'")
    yield connection
    await connection.close()


async def first_column(superuser: Any, table: str) -> str:
    return str(
        await superuser.fetchval(
            "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum = 1", table
        )
    )


def hands_off(trick: str) -> list[Any]:
    tables = [*TABLES, *([] if trick in ADDING else ADDED_TO)]
    return [pytest.param(table, trick, id=f"{table}-{trick}") for table in tables]


@pytest.mark.parametrize(("table", "trick"), [one for trick in TRICKS + ADDING for one in hands_off(trick)])
async def test_the_application_cannot_change_what_was_written(app, superuser, table, trick):
    refused = (asyncpg.InsufficientPrivilegeError, asyncpg.WrongObjectTypeError, asyncpg.UndefinedObjectError)
    with pytest.raises(refused):
        await app.execute(trick.format(t=table, c=await first_column(superuser, table)))


@pytest.mark.parametrize("trick", SESSION_TRICKS)
async def test_the_application_cannot_step_around_the_ledgers_functions(app, trick):
    with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.RaiseError)):
        await app.execute(trick)


async def test_the_application_cannot_reach_a_month_past_its_table(app):
    for month in await app.fetch("SELECT relname FROM pg_class WHERE relname LIKE 'ledger\\_%\\_p______'"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await app.fetch(f"SELECT * FROM {month['relname']}")


async def test_what_the_application_makes_for_itself_is_not_what_the_ledger_looks_at(app, purse):
    """Tables of its own session with the ledger's names: the functions do not see them."""
    await app.execute(
        "CREATE TEMPORARY TABLE ledger_accounts (LIKE public.ledger_accounts);"
        "CREATE TEMPORARY TABLE ledger_entries (LIKE public.ledger_entries);"
        "SET search_path = pg_temp, public"
    )
    with pytest.raises(asyncpg.CheckViolationError):
        await app.fetch(
            "SELECT * FROM ledger_post('refund', 'shadow', $1, 'USD', '{tenant,refunds}', '{-99000000,99000000}', "
            "NULL, '', NULL, 'a', 'b')",
            purse.org_id,
        )


@pytest.mark.parametrize("role", ["owner", "superuser"])
async def test_the_owner_and_a_superuser_are_refused_too(database, purse, role):
    connection = await asyncpg.connect(getattr(database, role))
    await connection.execute("SET app.org_id = '*'")
    for table, tricks in [(t, TRICKS[:3]) for t in LEDGER[:3]] + [(t, TRICKS[2:3]) for t in ("usage", *ADDED_TO)]:
        for trick in tricks:
            column = await first_column(connection, table)
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(trick.format(t=table, c=column))
    months = await connection.fetch(
        "SELECT relname FROM pg_class WHERE relname ~ '^ledger_.*_p[0-9]{6}$' AND relkind = 'r'"
    )
    assert len(months) >= 4
    for month in months:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(f"TRUNCATE {month['relname']}")
    await connection.close()


async def test_the_last_transaction_cannot_be_taken_away_once_the_audit_log_knows_of_it(purse: Purse, superuser):
    """All of it, with its keys and legs: every hash that is left is right, and every sum; only the anchor tells."""
    assert await anchors.anchor(purse.db) > 0
    assert await anchors.anchor(purse.db) == 0, "nothing was posted since"
    last = await superuser.fetchval("SELECT max(id::text)::uuid FROM ledger_transactions")
    account_ids = await superuser.fetch("SELECT account_id FROM ledger_entries WHERE transaction_id = $1", last)
    within = superuser.transaction()
    await within.start()
    await superuser.execute("SET LOCAL session_replication_role = replica")
    kept = [
        (table, await superuser.fetch(f"DELETE FROM {table} WHERE {column} = $1 RETURNING *", last))
        for table, column in LEDGER_ROWS
    ]
    await within.commit()
    found = await purse.city.get(purse.admin, "/ops/books/verify")
    async with superuser.transaction():
        await superuser.execute("SET LOCAL session_replication_role = replica")
        for table, rows in kept:
            for one in rows:
                places = ", ".join(f"${n}" for n in range(1, len(one) + 1))
                await superuser.execute(f"INSERT INTO {table} VALUES ({places})", *one.values())
    assert [flaw["subject"] for flaw in found["flaws"]] == [
        f"account {row['account_id']}" for row in account_ids if row["account_id"] != await tenants(superuser, purse)
    ]
    assert str(last) in found["flaws"][0]["problem"]
    assert "is gone" in found["flaws"][0]["problem"]
    assert (await purse.city.get(purse.admin, "/ops/books/verify"))["holds"]


async def tenants(superuser: Any, purse: Purse) -> Any:
    return await superuser.fetchval("SELECT id FROM ledger_accounts WHERE org_id = $1", purse.org_id)


LEDGER_ROWS = (("ledger_transactions", "id"), ("ledger_entries", "transaction_id"), ("ledger_keys", "transaction_id"))
TAMPERING = {
    "an amount": "UPDATE ledger_entries SET amount_micros = 7 WHERE transaction_id = $1 AND org_id IS NOT NULL",
    "a balance": "UPDATE ledger_entries SET balance_micros = 7 WHERE transaction_id = $1 AND org_id IS NULL",
    "whose it is": "UPDATE ledger_transactions SET org_id = NULL WHERE id = $1",
    "a reason": "UPDATE ledger_transactions SET reason = 'another' WHERE id = $1",
    "a subject": "UPDATE ledger_transactions SET subject_id = uuidv7() WHERE id = $1",
    "an instant": "UPDATE ledger_transactions SET at = at - interval '1 hour' WHERE id = $1",
    "a kind": "UPDATE ledger_transactions SET kind = 'usage' WHERE id = $1",
    "an entry taken out": "DELETE FROM ledger_entries WHERE transaction_id = $1 AND org_id IS NULL",
    "a transaction taken out": "DELETE FROM ledger_transactions WHERE id = $1",
    "a key taken out": "DELETE FROM ledger_keys WHERE transaction_id = $1",
    "another key": "UPDATE ledger_keys SET key = 'another' WHERE transaction_id = $1",
    "an actor": "UPDATE ledger_transactions SET actor = 'nobody' WHERE id = $1",
    "a hash": "UPDATE ledger_entries SET hash = sha256('made') WHERE transaction_id = $1 AND org_id IS NOT NULL",
    "a number": "UPDATE ledger_entries SET number = number + 1 WHERE transaction_id = $1 AND org_id IS NOT NULL",
    "an amount and its balance": "UPDATE ledger_entries SET amount_micros = amount_micros + 1, "
    "balance_micros = balance_micros + 1 WHERE transaction_id = $1 AND org_id IS NOT NULL",
    "all of its legs taken out": "DELETE FROM ledger_entries WHERE transaction_id = $1",
}


# Whole ones put in, and two that change places: the row that is named need not be the one above.
MORE = {
    "one put in at the end": [
        "INSERT INTO ledger_transactions SELECT uuidv7(), now(), kind, 'made', org_id, currency, NULL, 'made', NULL, "
        "'', '' FROM ledger_transactions WHERE id = $1",
        "INSERT INTO ledger_keys SELECT kind, key, id FROM ledger_transactions WHERE key = 'made'",
        "INSERT INTO ledger_entries SELECT e.account_id, t.id, e.org_id, h.number + 1, e.amount_micros, "
        "h.balance_micros + e.amount_micros, sha256('made') "
        "FROM ledger_entries e JOIN ledger_transactions t ON t.key = 'made' "
        "CROSS JOIN LATERAL ledger_head(e.account_id) AS h WHERE e.transaction_id = $1",
    ],
    "one put in between": [
        "INSERT INTO ledger_entries SELECT account_id, "
        "overlay(transaction_id::text PLACING 'ffffffffffff' FROM 25)::uuid, org_id, number, amount_micros, "
        "balance_micros, hash FROM ledger_entries WHERE transaction_id = $1 AND org_id IS NULL",
    ],
    "two that change places": [
        "UPDATE ledger_entries e SET amount_micros = o.amount_micros FROM ledger_entries o "
        "WHERE e.transaction_id = $1 AND e.org_id IS NOT NULL AND o.org_id = e.org_id AND o.number = 2",
    ],
    "two instants that change places": [
        "UPDATE ledger_transactions t SET at = o.at "
        "FROM ledger_transactions o JOIN ledger_entries e ON e.transaction_id = o.id "
        "WHERE t.id = $1 AND e.org_id = t.org_id AND e.number = 2",
    ],
}


@asynccontextmanager
async def tampered(superuser: Any, statements: list[str], *given: object) -> AsyncIterator[None]:
    """As a superuser does past the triggers; and back again, as it was."""
    tables = [*LEDGER[:4], *USAGE]
    async with superuser.transaction():
        await superuser.execute("SET LOCAL session_replication_role = replica")
        for table in tables:
            await superuser.execute(f"CREATE TEMPORARY TABLE kept_{table} AS TABLE {table}")
        for statement in statements:
            await superuser.execute(statement, *(given if "$1" in statement else ()))
    try:
        yield
    finally:
        async with superuser.transaction():
            await superuser.execute("SET LOCAL session_replication_role = replica")
            for table in tables:
                await superuser.execute(f"DELETE FROM {table}")
                await superuser.execute(f"INSERT INTO {table} SELECT * FROM kept_{table}")
                await superuser.execute(f"DROP TABLE kept_{table}")


async def third(purse: Purse, superuser: Any) -> Any:
    return await superuser.fetchval(
        "SELECT transaction_id FROM ledger_entries WHERE org_id = $1 AND number = 3", purse.org_id
    )


async def verified(purse: Purse) -> Any:
    return await purse.city.get(purse.admin, "/ops/books/verify")


@pytest.mark.parametrize("what", TAMPERING)
async def test_what_a_superuser_changes_past_the_triggers_is_named(purse: Purse, superuser, what):
    transaction_id = await third(purse, superuser)
    async with tampered(superuser, [TAMPERING[what]], transaction_id):
        found = await verified(purse)
    assert not found["holds"]
    assert any(str(transaction_id) in flaw["subject"] + flaw["problem"] for flaw in found["flaws"]), found
    assert (await verified(purse))["holds"]


@pytest.mark.parametrize("what", MORE)
async def test_what_a_superuser_puts_in_or_swaps_is_named(purse: Purse, superuser, what):
    transaction_id = await third(purse, superuser)
    async with tampered(superuser, MORE[what], transaction_id):
        made = await superuser.fetchval("SELECT id FROM ledger_transactions WHERE key = 'made'")
        found = await verified(purse)
    assert not found["holds"]
    said = " ".join(flaw["subject"] + flaw["problem"] for flaw in found["flaws"])
    assert str(made or transaction_id)[:24] in said, said
    assert (await verified(purse))["holds"]


async def test_an_account_that_is_said_to_be_another_is_named(purse: Purse, superuser):
    account_id = await superuser.fetchval("SELECT id FROM ledger_accounts WHERE kind = 'refunds'")
    async with tampered(
        superuser, ["UPDATE ledger_accounts SET kind = 'revenue', shard = 31 WHERE id = $1"], account_id
    ):
        found = await verified(purse)
    assert [flaw["subject"] for flaw in found["flaws"]] == [f"account {account_id}"]


async def test_an_organisation_proves_its_own_books_and_sees_what_was_changed(purse: Purse, superuser):
    path = f"/orgs/{purse.org_id}/proof"
    whole = await purse.city.get(purse.owner, path)
    assert (whole["holds"], whole["entries"], whole["flaws"]) == (True, 4, [])
    transaction_id = await third(purse, superuser)
    async with tampered(superuser, [TAMPERING["a reason"]], transaction_id):
        found = await purse.city.get(purse.owner, path)
    assert not found["holds"]
    assert str(transaction_id) in found["flaws"][0]["problem"]
