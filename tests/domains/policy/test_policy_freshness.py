"""Every replica knows of a change within a second, and keeps what it knew while the database is away."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.domains.policy.service import policy_follow, policy_refresh
from gpuaas.infra.postgres.database import Database
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id

DAYS = "identity.invitation_days"
SET = """INSERT INTO policy_overrides (key, value, guardrail, set_from, set_by_name, reason)
         VALUES ($1, $2::jsonb, false, 'global', 'test', 'test') ON CONFLICT ON CONSTRAINT policy_overrides_one_place
         DO UPDATE SET value = excluded.value"""


@asynccontextmanager
async def replica(url: str) -> AsyncIterator[MemoryPolicy]:
    """Another process's reader, with its own connections."""
    db, policy = Database(url, read_pool_size=1, write_pool_size=1), MemoryPolicy()
    await db.open()
    await policy_refresh(db, policy)
    task = asyncio.create_task(policy_follow(db, policy))
    yield policy
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await db.close()


async def seconds_until(policy: MemoryPolicy, value: int, limit: float = 10.0) -> float:
    started = clock.monotonic()
    while policy.number(DAYS) != value:
        assert clock.monotonic() - started < limit, f"still {policy.number(DAYS)}, not {value}"
        await asyncio.sleep(0.005)
    return clock.monotonic() - started


async def test_two_replicas_know_within_a_second_without_any_hint(database, superuser):
    async with replica(database.app) as one, replica(database.app) as two:
        for value in (11, 12, 13, 14):
            await superuser.execute(SET, DAYS, str(value))
            took = await asyncio.gather(seconds_until(one, value), seconds_until(two, value))
            assert max(took) < 1.0


async def test_a_hint_makes_it_at_once(database, superuser):
    async with replica(database.app) as policy:
        await asyncio.sleep(0.1)
        await superuser.execute(SET, DAYS, "21")
        policy.changed()
        assert await seconds_until(policy, 21) < 0.2


async def test_looking_without_a_change_loads_nothing(db: Database, superuser):
    policy = MemoryPolicy()
    assert await policy_refresh(db, policy)
    assert not await policy_refresh(db, policy)
    await superuser.execute(SET, DAYS, "22")
    assert await policy_refresh(db, policy)


async def test_values_set_by_hand_that_no_key_takes_do_not_stop_anybody(db: Database, superuser):
    await superuser.execute(SET, DAYS, "23")
    for key, value in (("no.such_key", "1"), ("audit.export_allowed", '"maybe"'), ("identity.ssh_keys_max", "1.5")):
        await superuser.execute(SET, key, value)
    policy = MemoryPolicy()
    await policy_refresh(db, policy)
    assert (policy.number(DAYS), policy.flag("audit.export_allowed"), policy.number("identity.ssh_keys_max")) == (
        23,
        True,
        50,
    )


async def test_the_last_good_values_stay_while_the_database_is_away_and_are_fresh_after(template, superuser, database):
    await superuser.execute(SET, DAYS, "31")
    admin = await asyncpg.connect(template.superuser)
    name = await superuser.fetchval("SELECT current_database()")
    async with replica(database.app) as policy:
        await seconds_until(policy, 31)
        await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND usename = 'gpuaas_app'", name
        )
        await asyncio.sleep(1.5)
        assert policy.number(DAYS) == 31
        assert policy.age_seconds > 1
        await superuser.execute(SET, DAYS, "32")
        await asyncio.sleep(0.5)
        assert policy.number(DAYS) == 31
        await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert await seconds_until(policy, 32) < 3.0
    await admin.close()


async def test_tenants_cannot_reach_past_their_wall(db: Database, superuser):
    """The second wall alone, without the pipeline."""
    from gpuaas.infra.postgres.tx import Sight

    mine, theirs = new_id(), new_id()
    for org in (mine, theirs):
        await superuser.execute("INSERT INTO orgs (id, name, title) VALUES ($1, $2, 't')", org, f"w-{org.hex}")
        await superuser.execute(
            "INSERT INTO policy_overrides (key, org_id, value, guardrail, set_from, set_by_name, "
            "reason) VALUES ($1, $2, '5', false, 'org', 't', 'test')",
            DAYS,
            org,
        )
    async with db.transaction(Sight(mine), "test") as tx:
        assert {row["org_id"] for row in await tx.rows("SELECT org_id FROM policy_overrides")} == {None, mine}
        assert await tx.run("UPDATE policy_overrides SET value = '9'") == 1
        assert await tx.run("DELETE FROM policy_overrides WHERE org_id IS DISTINCT FROM $1", mine) == 0
    for foreign in (theirs, None):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with db.transaction(Sight(mine), "test") as tx:
                await tx.run(
                    "INSERT INTO policy_overrides (key, org_id, value, guardrail, set_from, set_by_name, "
                    "reason) VALUES ('k.k', $1, '5', false, 'org', 't', 'test')",
                    foreign,
                )
