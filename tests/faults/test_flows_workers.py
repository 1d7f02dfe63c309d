"""Workers killed for good in the middle of an allocation's flow: whoever is left, or comes next, finishes it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from gpuaas.contracts.simulation import Do
from gpuaas.kit import clock
from tests.support.servers import DatabaseUrls
from tests.support.site import SECONDS, Site, site_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flows_workers")]


@pytest.fixture(scope="module")
async def site(database: DatabaseUrls, nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with site_of(database, nats_url, tmp_path_factory.mktemp("site")) as made:
        await made.fleet(1)
        yield made


@pytest.fixture(autouse=True)
async def two_workers(site: Site) -> None:
    """At the beginning of each test, whatever the one before killed; and machines that work."""
    while sum(worker.alive for worker in site.workers) < 2:
        await site.worker()
    await site.fault(do=Do.CLEAR)


async def waiting_for_its_node(site: Site) -> str:
    """An allocation half-way: its node was asked, and is cut off."""
    await site.fault(do=Do.DROP_NETWORK)
    allocation_id = await site.allocate()
    await until_flow(site, allocation_id, step="lease", leased=None)
    return allocation_id


async def until_flow(site: Site, allocation_id: str, **wanted: Any) -> dict[str, Any]:
    until = clock.monotonic() + SECONDS
    while True:
        flow = await site.flow(allocation_id)
        if all(flow[name] == value for name, value in wanted.items()):
            return flow
        assert clock.monotonic() < until, flow
        await asyncio.sleep(0.05)


async def until_task(site: Site, allocation_id: str, *states: str) -> None:
    """Until the one thing its node was asked for is so far."""
    until = clock.monotonic() + SECONDS
    asked = "SELECT state FROM tasks WHERE subject_id = $1"
    while (found := [row["state"] for row in await site.sql(asked, allocation_id)]) not in [[one] for one in states]:
        assert clock.monotonic() < until, f"it is not {states}: {found}"
        await asyncio.sleep(0.05)


@asynccontextmanager
async def held(site: Site, allocation_id: str) -> AsyncIterator[None]:
    """Somebody else has the allocation's row: whoever wants it waits."""
    connection = await asyncpg.connect(site.plane.database.superuser)
    try:
        async with connection.transaction():
            await connection.execute("SELECT FROM allocations WHERE id = $1 FOR UPDATE", allocation_id)
            yield
    finally:
        await connection.close()


async def acting(site: Site, allocation_id: str) -> dict[str, Any]:
    """Its flow, once a worker has it and is in the middle of a step."""
    return await until_flow(site, allocation_id, leased=True)


async def test_the_owner_is_killed_in_the_middle_of_a_step_and_the_other_worker_finishes(site: Site) -> None:
    allocation_id = await waiting_for_its_node(site)
    async with held(site, allocation_id):
        await site.fault(do=Do.CLEAR)
        flow = await acting(site, allocation_id)
        site.named(flow["lease_owner"]).kill()
    await site.until(allocation_id, "active", seconds=SECONDS)
    attempts = await site.sql(
        "SELECT DISTINCT a.worker FROM flow_attempts a JOIN flow_runs r ON r.id = a.run_id WHERE r.subject_id = $1 "
        "AND a.fence > $2",
        allocation_id,
        flow["fence"],
    )
    assert [row["worker"] for row in attempts] != []
    assert flow["lease_owner"] not in [row["worker"] for row in attempts], "it is dead"
    await given_back(site, allocation_id)


async def test_the_owner_is_killed_while_its_node_is_waited_for_and_the_other_worker_finishes(site: Site) -> None:
    allocation_id = await waiting_for_its_node(site)
    site.named((await site.flow(allocation_id))["lease_owner"]).kill()
    await site.fault(do=Do.CLEAR)
    await site.until(allocation_id, "active", seconds=SECONDS)
    await given_back(site, allocation_id)


async def test_the_owner_is_killed_in_the_middle_of_a_release_and_the_other_worker_finishes(site: Site) -> None:
    allocation_id = await site.allocate()
    await site.until(allocation_id, "active")
    await site.fault(do=Do.DROP_NETWORK)
    await site.release(allocation_id)
    await until_flow(site, allocation_id, kind="allocation.release", step="revoke", leased=None)
    async with held(site, allocation_id):
        await site.fault(do=Do.CLEAR)
        flow = await acting(site, allocation_id)
        site.named(flow["lease_owner"]).kill()
    await site.until(allocation_id, "released", seconds=SECONDS)
    await nothing_left(site)


async def test_all_workers_are_killed_and_one_that_comes_later_finishes(site: Site) -> None:
    allocation_id = await waiting_for_its_node(site)
    # Only a worker signs what its node is to do; the API may have sent it off before the cut was noticed.
    await until_task(site, allocation_id, "ready", "delivered")
    for worker in site.workers:
        worker.kill()
    await site.fault(do=Do.CLEAR)
    await until_task(site, allocation_id, "done")
    assert (await site.show(allocation_id))["state"] == "provisioning", "nobody is there to go on"
    await site.worker()
    await site.until(allocation_id, "active", seconds=SECONDS)
    await given_back(site, allocation_id)


async def given_back(site: Site, allocation_id: str) -> None:
    await site.release(allocation_id)
    await site.until(allocation_id, "released", seconds=SECONDS)
    await nothing_left(site)


async def nothing_left(site: Site) -> None:
    """Of anybody: on the machines, in the books."""
    status = await site.fault(do=Do.STATUS)
    assert [node.accounts for node in status.nodes] == [0]
    assert await site.sql("SELECT id FROM slot_holds WHERE ended_at IS NULL") == []
    await site.sound()
