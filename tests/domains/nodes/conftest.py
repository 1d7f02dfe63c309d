"""A fleet for the tests of nodes."""

from collections.abc import AsyncIterator

import pytest

from gpuaas.infra.postgres.database import Database
from tests.support.fleet import Fleet, fleet_of


@pytest.fixture(scope="module")
async def fleet(db: Database) -> AsyncIterator[Fleet]:
    async with fleet_of(db) as made:
        yield made
