"""The catalogue and slots, on the real database."""

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import msgspec
import pytest

from gpuaas.contracts.actor import system
from gpuaas.contracts.http.inventory import PriceSet, Shape, SkuCreate, SkuState, SkuUpdate
from gpuaas.domains.inventory import service, store
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import NIL, PLATFORM, Sight
from gpuaas.kit import clock
from gpuaas.kit.errors import Conflict, Refused
from gpuaas.kit.ids import NodeId, new_id
from tests.domains.inventory.test_hardware import gpu, topology

SIGHT = Sight(PLATFORM)
ACTOR = system("test")


def wanted(**changes: Any) -> SkuCreate:
    given: dict[str, Any] = {
        "name": f"s-{new_id().hex}",
        "title": "H200",
        "shape": Shape.BAREMETAL,
        "gpu_vendor": "NVIDIA",
        "gpu_model": "H200",
        "gpu_memory_bytes": 140 << 30,
        "gpus_per_node": 2,
        "allowed_gpu_counts": [2, 1, 2],
        "region": "eu-1",
        "micros_per_gpu_hour": 3_500_000,
    }
    return SkuCreate(**(given | changes))


async def test_a_sku_has_its_first_price_from_the_start(db: Database):
    async with db.transaction(SIGHT, "test") as tx:
        sku, price = await service.sku_create(tx, ACTOR, wanted())
        assert sku.allowed_gpu_counts == [1, 2]
        assert (await service.prices_now(tx, [sku.id]))[sku.id] == price


async def test_two_skus_cannot_have_one_name(db: Database):
    one = wanted()
    async with db.transaction(SIGHT, "test") as tx:
        await service.sku_create(tx, ACTOR, one)
    with pytest.raises(Conflict) as fault:
        async with db.transaction(SIGHT, "test") as tx:
            await service.sku_create(tx, ACTOR, one)
    assert fault.value.code == "sku_name_taken"


async def test_more_gpus_than_a_node_has_cannot_be_offered(db: Database):
    with pytest.raises(Refused) as fault:
        async with db.transaction(SIGHT, "test") as tx:
            await service.sku_create(tx, ACTOR, wanted(allowed_gpu_counts=[3]))
    assert fault.value.details[0].field == "allowed_gpu_counts"


async def test_a_later_price_waits_for_its_time_and_an_earlier_one_is_refused(db: Database):
    async with db.transaction(SIGHT, "test") as tx:
        sku, first = await service.sku_create(tx, ACTOR, wanted())
        later = PriceSet(micros_per_gpu_hour=9, valid_from=clock.now() + timedelta(days=1))
        await service.price_set(tx, ACTOR, sku.id, later)
        assert (await service.prices_now(tx, [sku.id]))[sku.id].id == first.id
        assert len(await service.price_list(tx, sku.id, after=NIL, limit=10)) == 2
    with pytest.raises(Refused):
        async with db.transaction(SIGHT, "test") as tx:
            past = PriceSet(micros_per_gpu_hour=9, valid_from=clock.now() - timedelta(days=1))
            await service.price_set(tx, ACTOR, sku.id, past)


async def test_a_price_is_never_changed(db: Database):
    async with db.transaction(SIGHT, "test") as tx:
        sku, _ = await service.sku_create(tx, ACTOR, wanted())
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with db.transaction(SIGHT, "test") as tx:
            await tx.run("UPDATE sku_prices SET micros_per_gpu_hour = 0 WHERE sku_id = $1", sku.id)


async def test_a_retired_sku_is_listed_as_such(db: Database):
    async with db.transaction(SIGHT, "test") as tx:
        sku, _ = await service.sku_create(tx, ACTOR, wanted())
        assert (await service.sku_update(tx, sku.id, SkuUpdate(state=SkuState.RETIRED))).state is SkuState.RETIRED


async def test_slots_follow_what_inspection_finds(db: Database):
    node = NodeId(new_id())
    async with db.transaction(SIGHT, "test") as tx:
        sku, _ = await service.sku_create(tx, ACTOR, wanted())
        assert await service.slots_observed(tx, node, sku.id, topology(gpu(0), gpu(1))) == []
        first = await store.slots_of(tx, [node])
        found = await service.slots_observed(tx, node, sku.id, topology(gpu(0), gpu(1, serial="S9")))
        after = {slot.serial: slot for slot in await store.slots_of(tx, [node])}
    assert [slot.serial for slot in first] == ["S0", "S1"]
    assert [str(one) for one in found] == ["GPU S1: expected present, found gone"]
    assert {serial: slot.present for serial, slot in after.items()} == {"S0": True, "S1": False, "S9": True}
    assert after["S0"].id == first[0].id


@pytest.mark.parametrize(
    "instant", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "2300-01-01T00:00:00Z", "2030-01-01T00:00:00"]
)
async def test_a_price_from_an_instant_that_cannot_be_meant_is_refused(db: Database, instant: str):
    body = msgspec.json.encode({"micros_per_gpu_hour": 1, "valid_from": instant})
    async with db.transaction(SIGHT, "test") as tx:
        sku, _ = await service.sku_create(tx, ACTOR, wanted())
        with pytest.raises((Refused, msgspec.ValidationError)):
            await service.price_set(tx, ACTOR, sku.id, msgspec.json.decode(body, type=PriceSet))


async def test_of_two_prices_of_one_instant_the_later_set_counts(db: Database):
    at = clock.now() + timedelta(milliseconds=50)
    async with db.transaction(SIGHT, "test") as tx:
        sku, _ = await service.sku_create(tx, ACTOR, wanted())
        prices = [
            await service.price_set(
                tx, ACTOR, sku.id, PriceSet(currency=currency, micros_per_gpu_hour=1, valid_from=at)
            )
            for currency in ("USD", "EUR", "GBP")
        ]
    await asyncio.sleep(0.1)
    async with db.read(SIGHT) as tx:
        assert (await service.prices_now(tx, [sku.id]))[sku.id] == prices[-1]
