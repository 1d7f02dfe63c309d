"""Quotas on the real database: counted exactly when many ask at once; set by the platform, read by whose they are."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from gpuaas.contracts.error_codes import Code
from gpuaas.domains.allocations.placement import service as placement
from gpuaas.domains.allocations.quotas import service
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.errors import Conflict
from gpuaas.kit.ids import AllocationId, OrgId, ProjectId, new_id
from tests.support.issuer_site import WrittenPolicy
from tests.support.people import City, Person, city_of, found, refusal
from tests.support.servers import DatabaseUrls
from tests.support.slot_yard import LEASE, Tenant, Yard, ask_of, yard_of


@pytest.fixture(scope="module")
async def yard(db: Database, database: DatabaseUrls) -> AsyncIterator[Yard]:
    async with yard_of(db, database.superuser) as made:
        yield made


@pytest.fixture(scope="module")
async def city(db: Database) -> AsyncIterator[City]:
    async with city_of(db) as made:
        yield made


def policy(**values: int) -> WrittenPolicy:
    written = WrittenPolicy()
    written.values |= {f"quota.{name}": value for name, value in values.items()}
    return written


async def request(yard: Yard, who: Tenant, sku: Any, gpus: int, limits: WrittenPolicy) -> bool:
    """As create does it: counted, written and placed in one transaction."""
    try:
        async with yard.db.transaction(who.sight, "test") as tx:
            await service.quota_check(tx, limits, who.org_id, who.project_id, sku, gpus)
            allocation_id = AllocationId(new_id())
            await tx.run(
                "INSERT INTO allocations (id, org_id, project_id, name, sku_id, gpu_count, node_count, isolation, "
                "price_id, requested_by, ssh_keys, state, due_at, lease_seconds, correlation_id) "
                "SELECT $1, $2, $3, $4, $5, $6, 1, 'user-revoke', id, 't', '{}', 'provisioning', now(), 60, 't' "
                "FROM sku_prices WHERE sku_id = $5",
                allocation_id,
                who.org_id,
                who.project_id,
                f"a-{allocation_id.hex}",
                sku.id,
                gpus,
            )
            placed = await placement.place(tx, allocation_id, who.org_id, ask_of(sku, gpus), lease_seconds=LEASE)
            assert placed is not None
    except Conflict as refused:
        if refused.code != Code.QUOTA_EXCEEDED:
            raise
        return False
    return True


async def test_as_many_gpus_as_allowed_are_held_however_many_ask_at_once(yard: Yard):
    sku, who = await yard.sku(), await yard.tenant()
    await yard.nodes_of(sku, 5)
    told = await asyncio.gather(*(request(yard, who, sku, 2, policy(gpus=13)) for _ in range(20)))
    assert sum(told) == 6
    async with yard.db.read(who.sight) as tx:
        assert await service.quota_left(tx, policy(gpus=13), who.org_id, who.project_id, sku) == 1
    assert await yard.broken() == []


async def test_as_many_allocations_as_allowed_live_however_many_ask_at_once(yard: Yard):
    sku, who = await yard.sku(), await yard.tenant()
    await yard.nodes_of(sku, 2)
    told = await asyncio.gather(*(request(yard, who, sku, 1, policy(allocations=3)) for _ in range(10)))
    assert sum(told) == 3


async def test_only_this_organisation_s_gpus_of_this_model_count(yard: Yard):
    sku, other_model, who, other = await yard.sku(), await yard.sku(), await yard.tenant(), await yard.tenant()
    for each in (sku, other_model):
        await yard.nodes_of(each, 2)
    assert await request(yard, other, sku, 8, policy(gpus=8))
    assert await request(yard, who, other_model, 8, policy(gpus=8))
    assert await request(yard, who, sku, 8, policy(gpus=8))
    assert not await request(yard, who, sku, 1, policy(gpus=8))


async def test_what_waits_counts_as_an_allocation_and_holds_no_gpu(yard: Yard):
    sku, who = await yard.sku(), await yard.tenant()
    await yard.allocation(who, sku, 8)
    async with yard.db.read(who.sight) as tx:
        assert await service.quota_left(tx, policy(gpus=8), who.org_id, who.project_id, sku) == 8
    async with yard.db.transaction(who.sight, "test") as tx:
        args = (who.org_id, who.project_id, sku, 8)
        await service.quota_check_waiting(tx, policy(gpus=8, allocations=1), *args)
        with pytest.raises(Conflict, match="has 1 of the 1 allocations"):
            await service.quota_check(tx, policy(gpus=8, allocations=1), *args)


async def test_what_was_given_back_counts_no_more(yard: Yard):
    sku, who = await yard.sku(), await yard.tenant()
    [node] = await yard.nodes_of(sku)
    held = await yard.occupied(who, sku, await yard.slots_of(node))
    async with yard.db.read(who.sight) as tx:
        assert await service.quota_left(tx, policy(gpus=8), who.org_id, who.project_id, sku) == 0
    await yard.give_back(held)
    async with yard.db.read(who.sight) as tx:
        assert await service.quota_left(tx, policy(gpus=8), who.org_id, who.project_id, sku) == 8


# through the API -----------------------------------------------------------------------------------------------------
async def home(city: City) -> tuple[Person, Tenant]:
    owner = await city.person()
    org_id = await city.org(owner)
    project = await city.made(owner, f"/orgs/{org_id}/projects", {"name": "p", "title": "P"})
    return owner, Tenant(OrgId(UUID(org_id)), ProjectId(UUID(project["id"])))


async def quotas(city: City, owner: Person, who: Tenant, model: str) -> list[tuple[str | None, int, int, str]]:
    said = await city.get(owner, f"/orgs/{who.org_id}/quotas")
    return [
        (one["project_id"], one["gpus"], one["used"], one["set_by"])
        for one in said["quotas"]
        if one["gpu_model"] == model
    ]


async def test_a_quota_is_set_read_replaced_and_taken_away(city: City, yard: Yard):
    sku, (owner, who), admin = await yard.sku(), await home(city), await city.admin()
    [node] = await yard.nodes_of(sku)
    await yard.occupied(who, sku, (await yard.slots_of(node))[:3])
    assert await quotas(city, owner, who, sku.gpu_model) == [(None, 64, 3, "policy")]
    path = f"/admin/orgs/{who.org_id}/quotas"
    wanted = {"gpu_model": sku.gpu_model, "gpus": 16}
    first = found(await city.ask(admin, "PUT", path, wanted), 200)
    again = found(await city.ask(admin, "PUT", path, wanted | {"gpus": 12}), 200)
    assert (again["id"], again["gpus"], again["used"]) == (first["id"], 12, 3)
    of_project = wanted | {"gpus": 4, "project_id": str(who.project_id)}
    found(await city.ask(admin, "PUT", path, of_project), 200)
    assert await quotas(city, owner, who, sku.gpu_model) == [
        (None, 12, 3, admin.email),
        (str(who.project_id), 4, 3, admin.email),
    ]
    assert not await request(yard, who, sku, 2, policy())
    assert await request(yard, who, sku, 1, policy())
    found(await city.ask(admin, "DELETE", f"{path}/{first['id']}"), 200)
    assert refusal(await city.ask(admin, "DELETE", f"{path}/{first['id']}")) == (404, "quota_missing")
    assert (await quotas(city, owner, who, sku.gpu_model))[0] == (None, 64, 4, "policy")


async def test_a_larger_quota_of_the_organisation_is_its_projects_as_well(city: City, yard: Yard):
    sku, (_, who), admin = await yard.sku(), await home(city), await city.admin()
    await yard.nodes_of(sku, 2)
    assert not await request(yard, who, sku, 8, policy(gpus=4))
    wanted = {"gpu_model": sku.gpu_model, "gpus": 8}
    found(await city.ask(admin, "PUT", f"/admin/orgs/{who.org_id}/quotas", wanted), 200)
    assert await request(yard, who, sku, 8, policy(gpus=4))


async def test_a_quota_of_nothing_or_nobody_is_refused(city: City, yard: Yard):
    sku, (_, who), (_, other), admin = await yard.sku(), await home(city), await home(city), await city.admin()
    good = {"gpu_model": sku.gpu_model, "gpus": 1}
    path = f"/admin/orgs/{who.org_id}/quotas"
    refused = {
        "no such model": (path, good | {"gpu_model": "H2000"}, (422, "gpu_model_unknown")),
        "no such organisation": (f"/admin/orgs/{new_id()}/quotas", good, (404, "org_missing")),
        "another's project": (path, good | {"project_id": str(other.project_id)}, (404, "project_missing")),
        "negative": (path, good | {"gpus": -1}, (422, "request_invalid")),
    }
    for what, (where, body, said) in refused.items():
        assert refusal(await city.ask(admin, "PUT", where, body)) == said, what
    assert await quotas(city, admin, who, sku.gpu_model) == [(None, 64, 0, "policy")]
