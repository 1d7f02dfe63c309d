"""Ground for the tests of allocations: a tenant, and for each test a simulated machine that nothing is on."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpuaas.infra.postgres.database import Database
from tests.support.ground import Ground, ground_of


@pytest.fixture(scope="module")
async def grounds(db: Database) -> AsyncIterator[Ground]:
    async with ground_of(db, machines=0) as made:
        yield made


@pytest.fixture
async def ground(grounds: Ground, superuser: Any) -> AsyncIterator[Ground]:
    await superuser.execute("UPDATE nodes SET cordoned = true")
    grounds.machines.clear()
    await grounds.machine()
    policy = dict(grounds.fleet.city.policy.values)
    yield grounds
    grounds.fleet.city.policy.values = policy
