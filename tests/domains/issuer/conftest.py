"""One issuer per test module."""

from collections.abc import AsyncIterator

import pytest

from gpuaas.infra.postgres.database import Database
from tests.support.issuer_site import Account, Site, issuer_site


@pytest.fixture(scope="module")
async def site(db: Database) -> AsyncIterator[Site]:
    async with issuer_site(db) as running:
        yield running


@pytest.fixture(scope="module")
async def ada(site: Site) -> Account:
    return await site.account("ada")
