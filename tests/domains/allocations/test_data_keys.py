"""Data keys are rotated by hand and by age, and what is sealed opens before, meanwhile and after."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpuaas.domains.allocations.connections.service import accounts_reseal
from gpuaas.domains.allocations.sealing import service
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.sealing import FieldSealer
from tests.support.fleet import EVERYTHING
from tests.support.ground import Ground, ground_of
from tests.support.people import found


@pytest.fixture(scope="module")
async def ground(db: Database) -> AsyncIterator[Ground]:
    async with ground_of(db, machines=1) as made:
        yield made


async def keys(ground: Ground) -> list[dict[str, Any]]:
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        return [
            {"id": key.id, "fields": key.sealed_fields, "retired": key.retired_at}
            for key in await service.data_key_list(tx)
        ]


async def test_a_rotation_by_hand_empties_the_old_key_and_what_it_sealed_still_opens(ground: Ground) -> None:
    made = await ground.active(1)
    before = found(await ground.say("GET", f"/{made.id}"), 200)["connections"]
    old = (await keys(ground))[0]
    assert old["fields"] >= 1
    assert old["retired"] is None
    sealer = ground.parts.get(FieldSealer)
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        await service.data_key_rotate(tx, sealer)
    new, same = (await keys(ground))[:2]
    assert (same["id"], same["retired"] is not None, new["fields"]) == (old["id"], True, 0)
    assert found(await ground.say("GET", f"/{made.id}"), 200)["connections"] == before != []
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        assert await accounts_reseal(tx, sealer) is None
    new, same = (await keys(ground))[:2]
    assert (same["fields"], new["fields"]) == (0, old["fields"])
    assert found(await ground.say("GET", f"/{made.id}"), 200)["connections"] == before
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        assert await tx.value("SELECT count(*) FROM outbox WHERE name = 'platform.data_key_rotated'") == 1
    await ground.release(made.id)
    await ground.run()


async def test_only_a_key_that_has_served_its_time_is_replaced_by_itself(ground: Ground) -> None:
    sealer = ground.parts.get(FieldSealer)
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        await sealer.seal(tx, b"-", "test")
        current = await sealer.current_id(tx)
        assert not await service.data_key_rotate_old(tx, sealer, days=90)
        assert await sealer.current_id(tx) == current
        await tx.run("UPDATE data_keys SET created_at = created_at - interval '91 days' WHERE id = $1", current)
        assert await service.data_key_rotate_old(tx, sealer, days=90)
        assert await sealer.current_id(tx) != current
        assert not await service.data_key_rotate_old(tx, sealer, days=90), "the new one is young"
