"""What must hold of meters is told when it does not: each is broken by somebody with all rights, looked at, and taken
back."""

from typing import Any

import asyncpg
import pytest

from gpuaas.kit.ids import new_id
from tests.every.usage_world import put_usage
from tests.every.world import Setting, make_setting
from tests.support.servers import DatabaseUrls

BROKEN: dict[str, str] = {
    "invariant_07_billed_is_usable": (
        "UPDATE meters SET closed_at = billed_until, settled_at = now(), billed_seconds = billed_seconds + 1 "
        "WHERE org_id = '{o}'"
    ),
    "invariant_07_none_twice": "UPDATE usage SET from_at = from_at - interval '1 second' WHERE org_id = '{o}'",
    "invariant_07_pauses_apart": (
        "INSERT INTO meter_pauses (meter_id, org_id, from_at, until_at, reason) "
        "SELECT meter_id, org_id, from_at + interval '1 second', until_at, 'twice' "
        "FROM meter_pauses WHERE org_id = '{o}'"
    ),
    "invariant_07_pauses_apart as caused": "DELETE FROM meter_pauses WHERE org_id = '{o}'",
    "invariant_08_usage_is_posted": "UPDATE usage SET micros = micros + 1 WHERE org_id = '{o}'",
    "invariant_34_usage_months_ahead": "{month}",
}


@pytest.fixture
async def superuser(database: DatabaseUrls) -> Any:
    connection = await asyncpg.connect(database.superuser)
    yield connection
    await connection.close()


@pytest.mark.parametrize("view", BROKEN)
async def test_each_invariant_of_meters_is_told_when_it_breaks(superuser: Any, view: str) -> None:
    within = superuser.transaction()
    await within.start()
    try:
        setting: Setting = await make_setting(superuser, f"https://{new_id().hex}")
        await put_usage(setting)
        before = {row["subject"] for row in await superuser.fetch(f"SELECT subject FROM {view}")}
        await superuser.execute("SET LOCAL session_replication_role = replica")
        month = await superuser.fetchval(
            "SELECT 'ALTER TABLE usage_p' || to_char(now() AT TIME ZONE 'UTC' + interval '1 month', 'YYYYMM') "
            "|| ' RENAME TO away'"
        )
        await superuser.execute(BROKEN[view].format(o=setting.org_id, month=month))
        after = {row["subject"] for row in await superuser.fetch(f"SELECT subject FROM {view}")}
    finally:
        await within.rollback()
    assert after - before != set()
