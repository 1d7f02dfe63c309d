"""One issuer per test module."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpuaas.infra.postgres.database import Database
from tests.support.issuer_site import Account, Robot, Site, issuer_site


@pytest.fixture(scope="module")
async def site(db: Database) -> AsyncIterator[Site]:
    async with issuer_site(db) as running:
        yield running


@pytest.fixture(scope="module")
async def ada(site: Site) -> Account:
    return await site.account("ada")


@pytest.fixture
async def robot(site: Site, superuser: Any) -> Robot:
    return await Robot.make(superuser)
