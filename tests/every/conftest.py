"""What every test here asks through: the live API, the world, and the register with all operations in it."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.every.asking import Asking, undeclared
from tests.every.ledger import broken_invariants
from tests.support.live import LiveApi, api_process, api_processes, make_settings, mint_for, open_rates, serving
from tests.support.paying import paying
from tests.support.servers import DatabaseUrls

__all__ = ["api_process", "api_processes"]


@pytest.fixture(scope="module")
async def live_api(database: DatabaseUrls, nats_url: str) -> AsyncIterator[LiveApi]:
    """As everywhere, and with a provider at which can be paid."""
    settings = make_settings(database.app, nats_url, **paying())
    await open_rates(database.superuser)
    mint = await mint_for(settings, database.app)
    async with serving(settings) as client:
        yield LiveApi(settings.public_url, settings, client, mint)


@pytest.fixture(scope="module")
async def asking(live_api: LiveApi, database: DatabaseUrls) -> AsyncIterator[Asking]:
    connection = await asyncpg.connect(database.superuser)
    yield Asking(live_api, connection)
    said = undeclared()
    broken = await broken_invariants(connection)
    await connection.close()
    assert said == [], "an operation answered with an error it does not declare"
    assert broken == [], "what must always hold does not"
