"""A till for each module: its provider, its organisation and the way between them."""

from collections.abc import AsyncIterator

import pytest

from gpuaas.infra.postgres.database import Database
from tests.support.till import Till, till_of


@pytest.fixture(scope="module")
async def till(db: Database, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Till]:
    async with till_of(db, tmp_path_factory.mktemp("provider")) as made:
        yield made
