"""What a program with the application's role may try on the ledger, and the owner and a superuser in passing: refused.
What a superuser does past the triggers is named by the proof of the books."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from gpuaas.domains.billing.anchors import service as anchors
from gpuaas.infra.postgres.database import Database
from tests.support.purse import Purse, purse_of
from tests.support.servers import DatabaseUrls

TABLES = ("ledger_transactions", "ledger_entries", "ledger_keys", "ledger_accounts", "ledger_holds")
TRICKS = [
    "UPDATE {t} SET {c} = {c}",
    "DELETE FROM {t}",
    "TRUNCATE {t} CASCADE",
    "INSERT INTO {t} SELECT * FROM {t}",
    "MERGE INTO {t} a USING {t} b ON a.{c} = b.{c} WHEN MATCHED THEN DELETE",
    "COPY {t} FROM STDIN",
    "ALTER TABLE {t} DISABLE TRIGGER ALL",
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


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("trick", TRICKS)
async def test_the_application_cannot_change_the_ledger(app, superuser, table, trick):
    with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.WrongObjectTypeError)):
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
    for table in TABLES[:3]:
        for trick in TRICKS[:3]:
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
}


@pytest.mark.parametrize("what", TAMPERING)
async def test_what_a_superuser_changes_past_the_triggers_is_named(purse: Purse, superuser, what):
    row = await superuser.fetchrow(
        "SELECT transaction_id, account_id, number FROM ledger_entries WHERE org_id = $1 AND number = 3", purse.org_id
    )
    transaction = superuser.transaction()
    await transaction.start()
    await superuser.execute("SET LOCAL session_replication_role = replica")
    kept = {
        table: await superuser.fetch(f"SELECT * FROM {table} WHERE {column} = $1", row["transaction_id"])
        for table, column in (
            ("ledger_transactions", "id"),
            ("ledger_entries", "transaction_id"),
            ("ledger_keys", "transaction_id"),
        )
    }
    await superuser.execute(TAMPERING[what], row["transaction_id"])
    await transaction.commit()
    found = await purse.city.get(purse.admin, "/ops/books/verify")
    async with superuser.transaction():  # put it back as it was
        await superuser.execute("SET LOCAL session_replication_role = replica")
        for table, rows in kept.items():
            column = "id" if table == "ledger_transactions" else "transaction_id"
            await superuser.execute(f"DELETE FROM {table} WHERE {column} = $1", row["transaction_id"])
            for one in rows:
                places = ", ".join(f"${n}" for n in range(1, len(one) + 1))
                await superuser.execute(f"INSERT INTO {table} VALUES ({places})", *one.values())
    assert not found["holds"]
    assert any(str(row["transaction_id"]) in flaw["subject"] + flaw["problem"] for flaw in found["flaws"]), found
    again = await purse.city.get(purse.admin, "/ops/books/verify")
    assert again["holds"], again
