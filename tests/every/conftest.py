"""What every test here asks through: the live API, the world, and the register with all operations in it."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.every.asking import Asking, undeclared
from tests.every.ledger import broken_invariants
from tests.support.live import LiveApi, api_process, api_processes, live_api
from tests.support.servers import DatabaseUrls

__all__ = ["api_process", "api_processes", "live_api"]


@pytest.fixture(scope="module")
async def asking(live_api: LiveApi, database: DatabaseUrls) -> AsyncIterator[Asking]:
    connection = await asyncpg.connect(database.superuser)
    yield Asking(live_api, connection)
    said = undeclared()
    broken = await broken_invariants(connection)
    await connection.close()
    assert said == [], "an operation answered with an error it does not declare"
    assert broken == [], "what must always hold does not"
