"""The worker that charges is killed every few seconds while GPUs are in use: whoever was usable for N seconds pays
price(N), to the unit, and the books hold."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from gpuaas.domains.billing.meters.rating import owed_micros
from gpuaas.kit import clock
from tests.support.servers import DatabaseUrls
from tests.support.site import SECONDS, Site, site_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("billing_workers")]

ALLOCATIONS = 6
KILLS = 8
METER = """
SELECT m.*, floor(extract(epoch FROM m.closed_at) - extract(epoch FROM m.opened_at))::bigint AS lived,
       (SELECT count(*) FROM usage u WHERE u.meter_id = m.id) AS windows,
       (SELECT max(p.at) FROM allocation_proofs p WHERE p.allocation_id = m.subject_id AND p.passed) AS proven_at,
       (SELECT a.release_requested_at FROM allocations a WHERE a.id = m.subject_id) AS asked_at,
       (SELECT -sum(e.amount_micros) FROM ledger_entries e WHERE e.org_id = m.org_id
        AND e.transaction_id IN (SELECT u.transaction_id FROM usage u WHERE u.org_id = m.org_id)) AS paid_by_all
FROM meters m WHERE m.subject_id = ANY($1::uuid[])
"""


@pytest.fixture(scope="module")
async def site(database: DatabaseUrls, nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with site_of(database, nats_url, tmp_path_factory.mktemp("site")) as made:
        await made.fleet(1)
        yield made


async def test_whoever_was_usable_for_n_seconds_pays_price_of_n_whatever_died(site: Site) -> None:
    shortest = {"value": 10, "reason": "as often as can be"}
    assert (await site.ask("PUT", "/policy/billing.window_seconds", shortest)).status_code == 200
    ids = [await site.allocate() for _ in range(ALLOCATIONS)]
    for allocation_id in ids:
        await site.until(allocation_id, "active")
    await killed_again_and_again(site, ids)
    for allocation_id in ids[1:]:
        await site.release(allocation_id)
    for allocation_id in ids:
        await site.until(allocation_id, "released", seconds=2 * SECONDS)
    await settled(site, ids)

    meters = await site.sql(METER, ids)
    assert len(meters) == ALLOCATIONS
    for meter in meters:
        assert meter["opened_at"] == meter["proven_at"]
        assert meter["closed_at"] == meter["asked_at"]
        assert meter["billed_seconds"] == meter["lived"]
        assert meter["billed_micros"] == owed_micros(meter["micros_per_hour"], meter["lived"])
    assert {meter["paid_by_all"] for meter in meters} == {sum(meter["billed_micros"] for meter in meters)}
    assert max(meter["windows"] for meter in meters) > 1, "no pass came through between two kills"
    found = (await site.ask("GET", "/ops/books/verify")).json()
    assert found["holds"], found
    assert {one["name"] for one in found["equations"]} >= {
        "payments_are_credits",
        "debits_are_usage",
        "usage_is_occupancy",
    }
    await site.sound()


async def killed_again_and_again(site: Site, ids: list[str]) -> None:
    """The only worker there is, at any moment of its work; one release is asked for meanwhile."""
    for kill in range(KILLS):
        await asyncio.sleep(random.uniform(0.5, 7.0))
        site.workers[-1].kill()
        if kill == KILLS // 2:
            await site.release(ids[0])
        await site.worker()


async def settled(site: Site, ids: list[str]) -> None:
    until = clock.monotonic() + SECONDS
    open_ones = "SELECT count(*) FROM meters WHERE subject_id = ANY($1::uuid[]) AND settled_at IS NULL"
    while (await site.sql(open_ones, ids))[0]["count"]:
        assert clock.monotonic() < until, "not settled"
        await asyncio.sleep(0.2)
