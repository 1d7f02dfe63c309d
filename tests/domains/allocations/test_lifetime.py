"""How allocations end by themselves, and what their people hear before: leases, idleness, deadlines."""

from datetime import timedelta
from typing import Any

import pytest

from gpuaas.contracts.http.allocations import AllocationState as S
from gpuaas.contracts.http.allocations import Isolation
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations import store as allocation_store
from gpuaas.domains.allocations.lifetime import handlers
from gpuaas.domains.allocations.models import Allocation, NewAllocation
from gpuaas.domains.allocations.states import HoldState
from gpuaas.domains.inventory import service as inventory
from gpuaas.kit import clock
from gpuaas.kit.ids import AllocationId, OrgId, ProjectId, SkuId, new_id
from tests.support.fleet import EVERYTHING
from tests.support.ground import SSH_KEY, Ground
from tests.support.people import found


async def events(ground: Ground, name: str, allocation: Allocation) -> list[Any]:
    return await ground.fleet.events(f"allocation.{name}", allocation.id)


async def phases(ground: Ground, allocation: Allocation) -> list[str]:
    async with ground.db.read(EVERYTHING) as tx:
        rows = await tx.rows(
            "SELECT phase FROM allocation_timeline WHERE allocation_id = $1 ORDER BY id", allocation.id
        )
    return [row["phase"] for row in rows]


async def shift(superuser: Any, allocation: Allocation, **columns: timedelta | None) -> None:
    """Put instants so far from now."""
    for column, by in columns.items():
        at = None if by is None else clock.now() + by
        await superuser.execute(f"UPDATE allocations SET {column} = $2 WHERE id = $1", allocation.id, at)


async def renew(ground: Ground, allocation: Allocation) -> None:
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        await allocations.allocation_renew(tx, allocation.id, seconds=3600)


# leases --------------------------------------------------------------------------------------------------------------
async def test_the_end_of_a_lease_is_told_once_before_and_again_for_the_next_lease(
    ground: Ground, superuser: Any
) -> None:
    made = await ground.active()
    await handlers.leases_follow(ground.parts)
    assert await events(ground, "expiring", made) == [], "an hour is left, and half an hour is the warning"

    for told in (1, 2):
        await shift(superuser, made, expires_at=timedelta(minutes=29))
        for _ in range(3):
            await handlers.leases_follow(ground.parts)
        assert len(await events(ground, "expiring", made)) == told
        await renew(ground, made)
    assert (await phases(ground, made)).count("expiring") == 2
    assert (await ground.read(made.id)).state is S.ACTIVE


async def test_whose_lease_has_ended_is_released(ground: Ground, superuser: Any) -> None:
    made, other = await ground.active(), await ground.active()
    await shift(superuser, made, expires_at=-timedelta(seconds=1))
    for _ in range(2):
        await handlers.leases_follow(ground.parts)
    await ground.run()
    made = await ground.read(made.id)
    assert (made.state, made.release_reason, made.released_by) == (S.RELEASED, "lease_expired", "system:lifetime")
    assert len(await events(ground, "releasing", made)) == 1
    assert (await ground.read(other.id)).state is S.ACTIVE


# idle ----------------------------------------------------------------------------------------------------------------
@pytest.fixture
def reclaiming(ground: Ground) -> None:
    ground.fleet.city.policy.values |= {
        "allocations.idle_reclaim": True,
        "allocations.idle_minutes": 20,
        "allocations.idle_grace_minutes": 10,
    }


async def measured(ground: Ground, superuser: Any, percent: float, *, minutes: float = 60, gap: float = 0) -> None:
    """The machine said so each 30 seconds for the last minutes, but for a gap in the middle of them."""
    machine = ground.machines[0]
    values = {f"gpu.{serial}.utilisation_percent": percent for serial in machine.serials}
    await superuser.execute("DELETE FROM node_metrics WHERE node_id = $1", machine.id)
    now = clock.now()
    samples = [
        {"at": now - timedelta(seconds=ago), "values": values}
        for ago in range(0, int(minutes * 60), 30)
        if not gap or abs(ago - minutes * 30) > gap * 30
    ]
    for at in range(0, len(samples), 500):
        told = {"batch_id": new_id(), "samples": samples[at : at + 500]}
        found(await machine.say("/metrics", told), 200)


async def follow(ground: Ground, times: int = 1) -> None:
    for _ in range(times):
        await handlers.idle_follow(ground.parts)


@pytest.mark.usefixtures("reclaiming")
async def test_an_unused_allocation_is_warned_and_then_released(ground: Ground, superuser: Any) -> None:
    made = await ground.active(2)
    await measured(ground, superuser, 2)
    await follow(ground, 2)
    noted = await ground.read(made.id)
    assert (noted.idle_since is not None, noted.reclaim_at) == (True, None)

    await shift(superuser, made, idle_since=-timedelta(minutes=21))
    await follow(ground, 3)
    warned = await ground.read(made.id)
    [told] = await events(ground, "idle", made)
    assert warned.state is S.ACTIVE
    assert warned.reclaim_at is not None
    assert timedelta(minutes=9) < warned.reclaim_at - clock.now() <= timedelta(minutes=10)
    assert told["reclaim_at"].startswith(warned.reclaim_at.strftime("%Y-%m-%dT%H:%M"))

    await shift(superuser, made, reclaim_at=-timedelta(seconds=1))
    await follow(ground, 2)
    await ground.run()
    ended = await ground.read(made.id)
    assert (ended.state, ended.release_reason) == (S.RELEASED, "idle")


@pytest.mark.usefixtures("reclaiming")
async def test_use_takes_the_warning_back_even_at_the_last_moment(ground: Ground, superuser: Any) -> None:
    made = await warned_of(ground, superuser)
    await measured(ground, superuser, 80, minutes=1)
    await shift(superuser, made, reclaim_at=-timedelta(seconds=1))
    await follow(ground, 3)
    kept = await ground.read(made.id)
    assert (kept.state, kept.idle_since, kept.reclaim_at) == (S.ACTIVE, None, None)
    assert len(await events(ground, "busy_again", made)) == 1
    assert (await phases(ground, made))[-1] == "busy_again"


@pytest.mark.usefixtures("reclaiming")
async def test_whoever_renews_takes_the_warning_back(ground: Ground, superuser: Any) -> None:
    made = await warned_of(ground, superuser)
    await renew(ground, made)
    await follow(ground, 2)
    kept = await ground.read(made.id)
    assert (kept.state, kept.reclaim_at) == (S.ACTIVE, None)
    assert len(await events(ground, "busy_again", made)) == 1
    assert len(await events(ground, "idle", made)) == 1


@pytest.mark.usefixtures("reclaiming")
async def test_a_policy_that_reclaims_nothing_any_more_takes_the_warning_back(ground: Ground, superuser: Any) -> None:
    made = await warned_of(ground, superuser)
    ground.fleet.city.policy.values["allocations.idle_reclaim"] = False
    await follow(ground, 2)
    assert (await ground.read(made.id)).reclaim_at is None
    assert len(await events(ground, "busy_again", made)) == 1


async def warned_of(ground: Ground, superuser: Any) -> Allocation:
    made = await ground.active()
    await measured(ground, superuser, 0)
    await follow(ground)
    await shift(superuser, made, idle_since=-timedelta(minutes=30))
    await follow(ground)
    assert (await ground.read(made.id)).reclaim_at is not None
    return made


@pytest.mark.usefixtures("reclaiming")
async def test_nobody_is_idle_whose_use_is_not_known(ground: Ground, superuser: Any) -> None:
    made = await ground.active()
    await follow(ground, 2)
    assert (await ground.read(made.id)).idle_since is None, "nothing was ever measured"

    await measured(ground, superuser, 0)
    await superuser.execute(
        "UPDATE node_metrics SET values = values - (SELECT 'gpu.' || serial || '.utilisation_percent' FROM slot_holds "
        "WHERE allocation_id = $1) WHERE node_id = $2",
        made.id,
        ground.machines[0].id,
    )
    await follow(ground, 2)
    assert (await ground.read(made.id)).idle_since is None, "all was measured but its own GPU"

    await superuser.execute("DELETE FROM node_metrics WHERE node_id = $1", ground.machines[0].id)
    await measured(ground, superuser, 0, minutes=60, gap=0)
    await superuser.execute(
        "DELETE FROM node_metrics WHERE node_id = $1 AND at > now() - interval '4 minutes'", ground.machines[0].id
    )
    await follow(ground, 2)
    assert (await ground.read(made.id)).idle_since is None, "what was measured is too old"


@pytest.mark.usefixtures("reclaiming")
@pytest.mark.parametrize("how", ["a gap", "use that nobody looked at"])
async def test_what_nobody_looked_at_counts_as_use(ground: Ground, superuser: Any, how: str) -> None:
    made = await ground.active()
    await measured(ground, superuser, 0, minutes=30, gap=10 if how == "a gap" else 0)
    if how != "a gap":
        await superuser.execute(
            "UPDATE node_metrics SET values = replace(values::text, ': 0', ': 50')::jsonb WHERE node_id = $1 AND at = "
            "(SELECT min(at) FROM node_metrics WHERE node_id = $1 AND at > now() - interval '15 minutes')",
            ground.machines[0].id,
        )
    await shift(superuser, made, idle_since=-timedelta(minutes=25))
    await follow(ground)
    left = await ground.read(made.id)
    assert (left.idle_since, left.reclaim_at) == (None, None)
    assert await events(ground, "idle", made) == []


async def test_where_the_policy_does_not_say_so_nobody_is_reclaimed(ground: Ground, superuser: Any) -> None:
    made = await ground.active()
    await measured(ground, superuser, 0)
    await follow(ground, 2)
    assert (await ground.read(made.id)).idle_since is None


# deadlines -----------------------------------------------------------------------------------------------------------
async def requested(ground: Ground) -> Allocation:
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        sku = await inventory.sku_get(tx, SkuId(ground.sku_id))
        price = (await inventory.prices_now(tx, [sku.id]))[sku.id]
        allocation_id = AllocationId(new_id())
        return await allocation_store.insert(
            tx,
            NewAllocation(
                id=allocation_id,
                org_id=OrgId(ground.org_id),
                project_id=ProjectId(ground.project_id),
                name=f"a-{allocation_id.hex[-12:]}",
                sku_id=sku.id,
                gpu_count=1,
                node_count=1,
                isolation=Isolation.USER_REVOKE,
                price_id=price.id,
                tags=[],
                requested_by="test",
                requested_by_id=None,
                ssh_keys=[SSH_KEY],
                lease_seconds=3600,
                queue_seconds=3600.0,
                correlation_id="test",
            ),
        )


async def test_who_waited_too_long_in_the_queue_is_told_so(ground: Ground, superuser: Any) -> None:
    late, other = await requested(ground), await requested(ground)
    await shift(superuser, late, due_at=-timedelta(seconds=1))
    for _ in range(2):
        await handlers.deadlines_follow(ground.parts)
    late = await ground.read(late.id)
    assert (late.state, late.failure_code) == (S.FAILED, "queue_expired")
    assert len(await events(ground, "failed", late)) == 1
    assert (await ground.read(other.id)).state is S.REQUESTED
    await superuser.execute("UPDATE allocations SET state = 'failed', ended_at = now() WHERE id = $1", other.id)


async def test_what_is_not_ready_in_time_is_taken_back(ground: Ground, superuser: Any) -> None:
    made = await ground.reserve()
    await shift(superuser, made, due_at=-timedelta(seconds=1))
    for _ in range(2):
        await handlers.deadlines_follow(ground.parts)
    await ground.run()
    made = await ground.read(made.id)
    assert made.state is S.FAILED
    assert "not ready in time" in made.failure
    assert await held(superuser, made) == {"unused": 1}


async def test_what_nobody_makes_ready_any_more_has_failed_and_its_gpus_are_in_quarantine(
    ground: Ground, superuser: Any
) -> None:
    made = await ground.reserve()
    await end_flow(superuser, made)
    await shift(superuser, made, due_at=-timedelta(seconds=1))
    await handlers.deadlines_follow(ground.parts)
    made = await ground.read(made.id)
    assert (made.state, made.failure_code) == (S.FAILED, "provisioning_overdue")
    assert await held(superuser, made) == {"quarantined": 1}
    assert await quarantined(superuser, made) == 1


async def test_what_is_not_released_in_time_and_by_nobody_is_in_quarantine(ground: Ground, superuser: Any) -> None:
    made = await ground.active()
    await ground.release(made.id)
    await shift(superuser, made, due_at=-timedelta(seconds=1))
    await handlers.deadlines_follow(ground.parts)
    assert (await ground.read(made.id)).state is S.RELEASING, "somebody is at it"
    await end_flow(superuser, made)
    for _ in range(2):
        await handlers.deadlines_follow(ground.parts)
    assert (await ground.read(made.id)).state is S.RELEASE_FAILED
    assert await quarantined(superuser, made) == 1
    assert len(await events(ground, "release_failed", made)) == 1


async def test_a_gpu_that_is_not_cleaned_in_time_is_in_quarantine(ground: Ground, superuser: Any) -> None:
    made = await ground.active()
    await ground.release(made.id)
    await superuser.execute(
        "UPDATE slot_holds SET state = $2, due_at = now() - interval '1 second' WHERE allocation_id = $1",
        made.id,
        HoldState.CLEANING,
    )
    for _ in range(2):
        await handlers.deadlines_follow(ground.parts)
    assert await quarantined(superuser, made) == 1
    assert await held(superuser, made) == {"held": 1}, "nobody else gets it"
    assert await superuser.fetch("SELECT * FROM invariant_10_cleaning_ends") == []


async def held(superuser: Any, allocation: Allocation) -> dict[str, int]:
    rows = await superuser.fetch(
        "SELECT state, count(*) AS n FROM slot_holds WHERE allocation_id = $1 GROUP BY state", allocation.id
    )
    return {row["state"]: row["n"] for row in rows}


async def quarantined(superuser: Any, allocation: Allocation) -> int:
    return int(
        await superuser.fetchval(
            "SELECT count(*) FROM slot_quarantines q JOIN slot_holds h ON h.slot_id = q.slot_id "
            "WHERE h.allocation_id = $1 AND q.ended_at IS NULL",
            allocation.id,
        )
    )


async def end_flow(superuser: Any, allocation: Allocation) -> None:
    """As if somebody had ended it half-way."""
    await superuser.execute(
        "UPDATE flow_runs SET state = 'surrendered', ended_at = now(), lease_until = NULL WHERE subject_id = $1",
        allocation.id,
    )
