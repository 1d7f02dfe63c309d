"""A price from an instant on: what runs keeps the price it began with, what begins later has the new one, and the
statement shows both."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.domains.billing.meters import service as meters
from gpuaas.domains.billing.meters.models import Meter
from gpuaas.domains.billing.meters.rating import owed_micros
from gpuaas.infra.postgres.database import Database
from tests.support.fleet import EVERYTHING
from tests.support.ground import Ground, ground_of
from tests.support.people import found

TWICE = 2


@pytest.fixture
async def ground(db: Database) -> AsyncIterator[Ground]:
    async with ground_of(db) as made:
        yield made


async def meter(ground: Ground, allocation_id: UUID) -> Meter:
    async with ground.db.read(EVERYTHING) as tx:
        known = await meters.meter_get(tx, allocation_id)
    assert known is not None
    return known


async def active(ground: Ground) -> UUID:
    allocation_id = UUID(found(await ground.ask(), 202)["id"])
    await ground.run()
    assert (await ground.read(allocation_id)).state is AllocationState.ACTIVE
    return allocation_id


async def now(ground: Ground) -> Any:
    async with ground.db.read(EVERYTHING) as tx:
        return await tx.value("SELECT clock_timestamp()")


async def test_what_runs_keeps_its_price_and_what_begins_later_has_the_new_one(ground: Ground):
    city, admin = ground.fleet.city, ground.fleet.admin
    first = await active(ground)
    old = (await meter(ground, first)).micros_per_hour
    comes = await now(ground) + timedelta(seconds=2)
    body = {"micros_per_gpu_hour": old * TWICE, "valid_from": comes.isoformat()}
    price = await city.made(admin, f"/skus/{ground.sku_id}/prices", body)
    before = await active(ground)
    while await now(ground) <= comes:  # noqa: ASYNC110 # the clock is the database's
        await asyncio.sleep(0.1)
    after = await active(ground)
    early = await now(ground) < comes
    assert not early
    rates = {one: (await meter(ground, one)).micros_per_hour for one in (first, before, after)}
    assert (rates[first], rates[after]) == (old, old * TWICE)
    assert (await meter(ground, after)).price_id == UUID(price["id"])
    asked = await ground.read(before)
    assert rates[before] == (old if asked.created_at < comes else old * TWICE), "the price of when it was asked for"
    await asyncio.sleep(1.2)  # so that each owes for a second at least

    for allocation_id in (first, before, after):
        await ground.release(allocation_id)
    await ground.run()
    settled = [await meter(ground, one) for one in (first, before, after)]
    for one in settled:
        assert one.billed_micros == owed_micros(rates[one.subject_id], one.billed_seconds) > 0
    said = await city.get(ground.owner, f"/orgs/{ground.org_id}/statement")
    lines = {line["micros_per_gpu_hour"]: line for line in said["usage"]}
    assert set(lines) == {old, old * TWICE}
    for rate, line in lines.items():
        of_rate = [one for one in settled if rates[one.subject_id] == rate]
        assert line["micros"] == sum(one.billed_micros for one in of_rate)
        assert line["gpu_seconds"] == sum(one.billed_seconds * one.gpus for one in of_rate)
    assert (await city.get(ground.owner, f"/orgs/{ground.org_id}/proof"))["holds"]
