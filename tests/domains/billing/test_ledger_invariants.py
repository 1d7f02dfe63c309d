"""What must hold of the ledger is told when it does not: each is broken by somebody with all rights, looked at, and
taken back."""

from typing import Any
from uuid import UUID

import asyncpg
import pytest

from gpuaas.kit.ids import new_id
from tests.every.billing_world import put_hold, put_money
from tests.every.world import Setting, make_setting
from tests.support.servers import DatabaseUrls

BROKEN: dict[str, str] = {
    "invariant_01_balance_is_sum": "UPDATE ledger_entries SET balance_micros = balance_micros + 1 WHERE org_id = '{o}'",
    "invariant_02_transactions_balance": (
        "UPDATE ledger_entries SET amount_micros = amount_micros + 1 WHERE org_id = '{o}'"
    ),
    "invariant_02_one_key_one_transaction": "DELETE FROM ledger_keys WHERE transaction_id = '{t}'",
    "invariant_03_floors": "UPDATE ledger_holds SET amount_micros = 900000000000 WHERE org_id = '{o}'",
    "invariant_03_reversed_once": "UPDATE ledger_transactions SET reverses_id = id WHERE id = '{t}'",
    "invariant_14_holds_end": "UPDATE ledger_holds SET due_at = now() - interval '2 minutes' WHERE org_id = '{o}'",
    "invariant_14_adjustments_end": (
        "INSERT INTO ledger_adjustments (id, org_id, currency, amount_micros, reason, state, due_at, proposed_by, "
        "proposed_by_id) VALUES (uuidv7(), '{o}', 'USD', 1, 'an example', 'proposed', now() - interval '2 minutes', "
        "'example', uuidv7())"
    ),
    "invariant_34_ledger_months_ahead": "{month}",
}


@pytest.fixture
async def superuser(database: DatabaseUrls) -> Any:
    connection = await asyncpg.connect(database.superuser)
    yield connection
    await connection.close()


@pytest.mark.parametrize("view", BROKEN)
async def test_each_invariant_of_the_ledger_is_told_when_it_breaks(superuser: Any, view: str) -> None:
    within = superuser.transaction()
    await within.start()
    try:
        setting: Setting = await make_setting(superuser, f"https://{new_id().hex}")
        transaction_id: UUID = await put_money(setting)
        await put_hold(setting)
        before = {row["subject"] for row in await superuser.fetch(f"SELECT subject FROM {view}")}
        await superuser.execute("SET LOCAL session_replication_role = replica")
        month = await superuser.fetchval(
            "SELECT 'ALTER TABLE ledger_entries_p' || to_char(now() AT TIME ZONE 'UTC' + interval '1 month', 'YYYYMM') "
            "|| ' RENAME TO away'"
        )
        await superuser.execute(BROKEN[view].format(o=setting.org_id, t=transaction_id, month=month))
        after = {row["subject"] for row in await superuser.fetch(f"SELECT subject FROM {view}")}
    finally:
        await within.rollback()
    assert after - before != set()
