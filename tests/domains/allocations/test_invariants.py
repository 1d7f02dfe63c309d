"""What must hold of allocations and flows is told when it does not: each is broken by somebody with all rights, looked
at, and taken back."""

from typing import Any
from uuid import UUID

import asyncpg
import pytest

from gpuaas.kit.ids import new_id
from tests.every.allocation_world import put_allocation, put_flow
from tests.every.world import Setting, make_setting
from tests.support.servers import DatabaseUrls

BROKEN: dict[str, tuple[str, str]] = {
    "invariant_04_one_holder": ("active", "UPDATE slots SET held = NOT held WHERE id IN ({slots})"),
    "invariant_05_live_have_holds": ("active", "DELETE FROM slot_holds WHERE allocation_id = '{a}'"),
    "invariant_05_deposits_of_live": (
        "active",
        "UPDATE allocations SET state = 'release_failed' WHERE id = '{a}'",
    ),
    "invariant_07_active_is_metered": ("active", "DELETE FROM meters WHERE subject_id = '{a}'"),
    "invariant_06_active_is_proven": (
        "active",
        "UPDATE allocation_proofs SET passed = false WHERE allocation_id = '{a}'",
    ),
    "invariant_09_released_is_clean": (
        "released",
        "UPDATE slot_holds SET state = 'unused' WHERE allocation_id = '{a}'",
    ),
    "invariant_10_cleaning_ends": (
        "releasing",
        "UPDATE slot_holds SET state = 'cleaning', due_at = now() - interval '2 minutes' WHERE allocation_id = '{a}'",
    ),
    "invariant_13_flows_go_on": ("active", "UPDATE flow_runs SET next_at = now() - interval '2 minutes'"),
    "invariant_14_flows_move": ("active", "UPDATE flow_runs SET due_at = now() - interval '2 minutes'"),
    "invariant_14_allocations_move": (
        "provisioning",
        "UPDATE allocations SET due_at = now() - interval '2 minutes' WHERE id = '{a}'",
    ),
    "invariant_21_books_are_real": (
        "active",
        "INSERT INTO orphans (id, node_id, kind, name, first_seen_at) "
        "SELECT uuidv7(), node_id, 'account', 'gx', now() - interval '5 minutes' FROM slot_holds "
        "WHERE allocation_id = '{a}'",
    ),
}


@pytest.fixture
async def superuser(database: DatabaseUrls) -> Any:
    connection = await asyncpg.connect(database.superuser)
    yield connection
    await connection.close()


@pytest.mark.parametrize("view", BROKEN)
async def test_each_invariant_of_allocations_is_told_when_it_breaks(superuser: Any, view: str) -> None:
    state, breaks = BROKEN[view]
    within = superuser.transaction()
    await within.start()
    try:
        setting: Setting = await make_setting(superuser, f"https://{new_id().hex}")
        allocation_id: UUID = await put_allocation(setting, state=state)
        await put_flow(setting, allocation_id)
        before = {row["subject"] for row in await superuser.fetch(f"SELECT subject FROM {view}")}
        await superuser.execute("SET LOCAL session_replication_role = replica")
        slots = await superuser.fetch("SELECT slot_id FROM slot_holds WHERE allocation_id = $1", allocation_id)
        ids = ", ".join(f"'{row['slot_id']}'" for row in slots)
        await superuser.execute(breaks.format(a=allocation_id, slots=ids))
        after = {row["subject"] for row in await superuser.fetch(f"SELECT subject FROM {view}")}
    finally:
        await within.rollback()
    assert after - before != set()


async def test_every_invariant_of_allocations_and_flows_is_broken_above(superuser: Any) -> None:
    mine = await superuser.fetch(
        "SELECT viewname FROM pg_views WHERE viewname ~ '^invariant_(04|05|06|09|10|13|21)_' "
        "OR viewname IN ('invariant_14_flows_move', 'invariant_14_allocations_move', 'invariant_07_active_is_metered')"
    )
    assert {row["viewname"] for row in mine} == set(BROKEN)
