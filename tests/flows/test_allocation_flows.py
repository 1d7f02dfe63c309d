"""The two stories of an allocation, on simulated machines."""

from collections.abc import AsyncIterator

import pytest

from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.contracts.http.flows import FlowKind, FlowState
from gpuaas.infra.postgres.database import Database
from tests.support.ground import Ground, ground_of


@pytest.fixture
async def ground(db: Database) -> AsyncIterator[Ground]:
    async with ground_of(db) as made:
        yield made


async def test_reserved_gpus_become_active_and_are_given_back_clean(ground: Ground) -> None:
    allocation = await ground.active(2)
    machine = ground.machines[0]
    assert machine.leases.all == {allocation.id: sorted(machine.leases.all[allocation.id])}
    assert len(await machine.host.accounts()) == 1
    assert await ground.leftovers() == []

    await ground.release(allocation.id)
    await ground.run()
    allocation = await ground.read(allocation.id)
    assert allocation.state is AllocationState.RELEASED
    assert await machine.host.accounts() == []
    assert machine.leases.all == {}
    assert await ground.leftovers() == []
    run = await ground.flow(allocation.id, FlowKind.ALLOCATION_RELEASE)
    assert run.state is FlowState.DONE
