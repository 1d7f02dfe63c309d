"""An installation for the tests of identity."""

from collections.abc import AsyncIterator

import pytest

from gpuaas.infra.postgres.database import Database
from tests.support.people import City, city_of


@pytest.fixture(scope="module")
async def city(db: Database) -> AsyncIterator[City]:
    async with city_of(db) as made:
        yield made
