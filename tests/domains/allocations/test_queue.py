"""The queue on the real database: in which order it is served, who may pass whom, what each is told of his place."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from math import log
from typing import Any
from uuid import UUID

import pytest

from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.models import Allocation
from gpuaas.domains.allocations.queue import service
from gpuaas.domains.allocations.queue.handlers import queue_follow
from gpuaas.domains.inventory.models import Sku
from gpuaas.infra.postgres.database import Database
from gpuaas.kit import clock
from gpuaas.kit.ids import OrgId, ProjectId, new_id
from tests.support.fleet import HintsHere
from tests.support.issuer_site import WrittenPolicy
from tests.support.people import City, city_of, found, refusal
from tests.support.servers import DatabaseUrls
from tests.support.slot_yard import EVERYTHING, Tenant, Yard, ask_of, yard_of

PATIENCE = 10


@pytest.fixture(scope="module")
async def yard(db: Database, database: DatabaseUrls) -> AsyncIterator[Yard]:
    async with yard_of(db, database.superuser) as made:
        yield made


@pytest.fixture(scope="module")
async def city(db: Database) -> AsyncIterator[City]:
    async with city_of(db) as made:
        yield made


@pytest.fixture
def policy() -> WrittenPolicy:
    written = WrittenPolicy()
    written.values |= {"allocations.queue_patience_minutes": PATIENCE, "quota.gpus": 1000}
    return written


async def waits(yard: Yard, who: Tenant, sku: Sku, gpus: int = 1, nodes: int = 1, **changed: Any) -> Allocation:
    minutes = changed.pop("minutes", 0)
    since = clock.now() - timedelta(minutes=minutes)
    return await yard.allocation(who, sku, gpus, nodes, created_at=since, **changed)


async def state(yard: Yard, allocation: Allocation) -> str:
    found: str = await yard.sql.fetchval("SELECT state FROM allocations WHERE id = $1", allocation.id)
    return found


# serving -------------------------------------------------------------------------------------------------------------
async def test_who_waits_is_placed_and_made_ready_when_something_is_given_back(yard: Yard, policy: WrittenPolicy):
    sku, who, other = await yard.sku(), await yard.tenant(), await yard.tenant()
    [node] = await yard.nodes_of(sku)
    held = await yard.occupied(other, sku, await yard.slots_of(node))
    waiting = await waits(yard, who, sku, 8)
    assert await service.queue_pass(yard.db, policy, sku.id) == []
    await yard.give_back(held)
    assert await service.queue_pass(yard.db, policy, sku.id) == [waiting.id]
    assert (await state(yard, waiting), len(await yard.held(waiting))) == ("provisioning", 8)
    run = await yard.sql.fetchrow("SELECT kind, org_id FROM flow_runs WHERE subject_id = $1", waiting.id)
    assert run is not None
    assert (run["kind"], run["org_id"]) == ("allocation.provision", who.org_id)
    assert await yard.broken() == []


async def test_the_queue_is_served_by_priority_then_share_then_age(yard: Yard, policy: WrittenPolicy):
    sku, greedy, modest = await yard.sku(), await yard.tenant(), await yard.tenant()
    [node] = await yard.nodes_of(sku)
    slots = await yard.slots_of(node)
    ended = await yard.occupied(greedy, sku, slots)
    await yard.sql.execute("UPDATE slot_holds SET held_at = now() - interval '5 h' WHERE allocation_id = $1", ended.id)
    await yard.give_back(ended)
    old = await waits(yard, greedy, sku, 8, minutes=5)
    young = await waits(yard, modest, sku, 8, minutes=1)
    pressing = await waits(yard, greedy, sku, 8, priority=5)
    for expected in (pressing, young, old):
        assert await service.queue_pass(yard.db, policy, sku.id) == [expected.id]
        await yard.give_back(expected)
    assert await service.queue_pass(yard.db, policy, sku.id) == []


async def test_a_small_request_passes_a_large_one_only_while_that_has_patience(yard: Yard, policy: WrittenPolicy):
    sku, who, other = await yard.sku(), await yard.tenant(), await yard.tenant()
    [node] = await yard.nodes_of(sku)
    await yard.occupied(other, sku, (await yard.slots_of(node))[:1])
    large = await waits(yard, who, sku, 8, minutes=PATIENCE - 1)
    small = await waits(yard, who, sku, 1)
    assert await service.queue_pass(yard.db, policy, sku.id) == [small.id]
    second = await waits(yard, who, sku, 1)
    await yard.sql.execute("UPDATE allocations SET created_at = now() - interval '1 h' WHERE id = $1", large.id)
    assert await service.queue_pass(yard.db, policy, sku.id) == []
    assert await state(yard, second) == "requested"


async def test_nobody_waits_behind_what_could_never_be_had(yard: Yard, policy: WrittenPolicy):
    sku, who = await yard.sku(), await yard.tenant()
    await yard.nodes_of(sku)
    endless = await waits(yard, who, sku, 8, 2, minutes=600)
    small = await waits(yard, who, sku, 1)
    assert await service.queue_pass(yard.db, policy, sku.id) == [small.id]
    assert await state(yard, endless) == "requested"


async def test_who_is_over_his_quota_is_passed_and_served_when_he_is_not(yard: Yard, policy: WrittenPolicy):
    sku, rich, poor = await yard.sku(), await yard.tenant(), await yard.tenant()
    await yard.nodes_of(sku)
    quota_id = new_id()
    await yard.sql.execute(
        "INSERT INTO gpu_quotas (id, org_id, gpu_model, gpus, set_by) VALUES ($1, $2, $3, 1, 'test')",
        quota_id,
        poor.org_id,
        sku.gpu_model,
    )
    first = await waits(yard, poor, sku, 2, minutes=600)
    second = await waits(yard, rich, sku, 2)
    assert await service.queue_pass(yard.db, policy, sku.id) == [second.id]
    async with yard.db.read(poor.sight) as tx:
        told = await service.place_of(tx, policy, first)
    assert told is not None
    assert "quota" in told.reason
    await yard.sql.execute("DELETE FROM gpu_quotas WHERE id = $1", quota_id)
    assert await service.queue_pass(yard.db, policy, sku.id) == [first.id]


async def test_many_rounds_at_once_place_each_request_once(yard: Yard, policy: WrittenPolicy):
    sku, who = await yard.sku(), await yard.tenant()
    await yard.nodes_of(sku, 2)
    waiting = [await waits(yard, who, sku, 2) for _ in range(12)]
    rounds = await asyncio.gather(*(service.queue_pass(yard.db, policy, sku.id) for _ in range(6)))
    rounds.append(await service.queue_pass(yard.db, policy, sku.id))
    placed = [one for each in rounds for one in each]
    assert len(placed) == len(set(placed)) == 8
    assert [await state(yard, one) for one in waiting].count("requested") == 4
    assert await yard.broken() == []


async def test_one_that_is_cancelled_while_it_is_served_is_placed_or_cancelled(yard: Yard, policy: WrittenPolicy):
    sku, who = await yard.sku(), await yard.tenant()
    await yard.nodes_of(sku)
    for _ in range(10):
        waiting = await waits(yard, who, sku)

        async def cancel(one: Allocation) -> None:
            async with yard.db.transaction(who.sight, "test") as tx:
                await allocations.allocation_release(tx, one.id, by="test", reason="test")

        await asyncio.gather(service.queue_pass(yard.db, policy, sku.id), cancel(waiting))
        ended, held = await state(yard, waiting), await yard.held(waiting)
        assert (ended, len(held)) in {("failed", 0), ("provisioning", 1)}
        assert await yard.broken() == []


async def test_a_hint_has_the_queue_served_at_once(yard: Yard, policy: WrittenPolicy):
    sku, who = await yard.sku(), await yard.tenant()
    await yard.nodes_of(sku)
    hints = HintsHere()
    following = asyncio.create_task(queue_follow(yard.db, policy, hints))
    await asyncio.sleep(0)
    waiting = await waits(yard, who, sku)
    hints.tell(allocations.QUEUE_HINT)
    async with asyncio.timeout(30):
        while await state(yard, waiting) == "requested":  # noqa: ASYNC110 # it is served by others
            await asyncio.sleep(0.01)
    following.cancel()
    assert await state(yard, waiting) == "provisioning"


# what is told --------------------------------------------------------------------------------------------------------
async def test_a_place_tells_how_many_are_before_when_it_may_start_and_why_not_now(yard: Yard, policy: WrittenPolicy):
    sku, who, other = await yard.sku(), await yard.tenant(), await yard.tenant()
    [node] = await yard.nodes_of(sku)
    held = await yard.occupied(other, sku, await yard.slots_of(node))
    await waits(yard, other, sku, 8, minutes=2, priority=1)
    waiting = await waits(yard, who, sku, 8)
    async with yard.db.read(who.sight) as tx:
        told = await service.place_of(tx, policy, waiting)
        assert await service.somebody_waits(tx, sku.id)
        assert not await service.somebody_waits(tx, (await yard.sku()).id)
    assert told is not None
    assert (told.position, told.waiting) == (2, 2)
    assert "1 is before it" in told.reason
    assert "8 in use" in told.reason
    assert told.estimated_start is not None
    assert held.expires_at is not None
    assert told.estimated_start > held.expires_at + timedelta(hours=1)  # after the one before it, too


async def test_the_share_is_what_was_used_with_the_past_counting_less(yard: Yard, policy: WrittenPolicy):
    sku, who = await yard.sku(), await yard.tenant()
    [node] = await yard.nodes_of(sku)
    slots = await yard.slots_of(node)
    half_life = policy.number("allocations.share_half_life_hours")
    past, now = await yard.occupied(who, sku, slots[:2]), await yard.occupied(who, sku, slots[2:3])
    await yard.give_back(past)
    await yard.sql.execute(
        "UPDATE slot_holds SET held_at = now() - interval '30 h', ended_at = now() - interval '24 h' "
        "WHERE allocation_id = $1",
        past.id,
    )
    await yard.sql.execute("UPDATE slot_holds SET held_at = now() - interval '3 h' WHERE allocation_id = $1", now.id)
    await waits(yard, who, sku)
    async with yard.db.read(EVERYTHING) as tx:
        [found] = await service.positions(tx, policy, sku.id)

    def used(began: float, ended: float) -> float:
        """GPU-hours, each hour counting half as much as one `half_life` later."""
        return half_life / log(2) * (2 ** (-ended / half_life) - 2 ** (-began / half_life))

    assert found.entry.used_gpu_seconds / 3600 == pytest.approx(2 * used(30, 24) + used(3, 0), rel=0.01)


async def test_everybody_is_listed_for_the_platform_and_the_own_for_a_project(city: City, yard: Yard):
    sku, stranger, admin, owner = await yard.sku(), await yard.tenant(), await city.admin(), await city.person()
    org_id = await city.org(owner)
    project = await city.made(owner, f"/orgs/{org_id}/projects", {"name": "p", "title": "P"})
    who = Tenant(OrgId(UUID(org_id)), ProjectId(UUID(project["id"])))
    first, mine = await waits(yard, stranger, sku, minutes=1), await waits(yard, who, sku)
    listed = [one for one in (await city.get(admin, "/admin/queue"))["entries"] if one["sku_name"] == sku.name]
    assert [one["allocation_id"] for one in listed] == [str(first.id), str(mine.id)]
    own = (await city.get(owner, f"/projects/{who.project_id}/queue"))["entries"]
    assert [(one["allocation_id"], one["place"]["position"], one["place"]["waiting"]) for one in own] == [
        (str(mine.id), 2, 2)
    ]
    assert first.name not in str(own)
    assert str(stranger.org_id) not in str(own)
    path, wanted = f"/admin/allocations/{mine.id}/priority", {"priority": 7, "reason": "a deadline"}
    moved = found(await city.ask(admin, "PATCH", path, wanted), 200)
    assert (moved["priority"], moved["place"]["position"]) == (7, 1)
    assert refusal(await city.ask(owner, "PATCH", path, wanted)) == (403, "permission_denied")
    await yard.give_back(mine)
    assert refusal(await city.ask(admin, "PATCH", path, wanted)) == (409, "allocation_not_waiting")
    missing = f"/admin/allocations/{new_id()}/priority"
    assert refusal(await city.ask(admin, "PATCH", missing, wanted)) == (404, "allocation_missing")


async def test_a_new_request_hears_where_it_would_stand(yard: Yard, policy: WrittenPolicy):
    sku, who, other = await yard.sku(), await yard.tenant(), await yard.tenant()
    [node] = await yard.nodes_of(sku)
    held = await yard.occupied(other, sku, await yard.slots_of(node))
    await waits(yard, other, sku, 4)
    async with yard.db.read(who.sight) as tx:
        told = await service.place_at_the_end(tx, policy, who.org_id, ask_of(sku, 4))
    assert (told.position, told.waiting) == (2, 2)
    assert held.expires_at is not None
    assert told.estimated_start is not None
    assert held.expires_at <= told.estimated_start < held.expires_at + timedelta(minutes=5)
