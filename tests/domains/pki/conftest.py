"""The authority on a database of its own, and an API to ask it by."""

from collections.abc import AsyncIterator

import pytest

from gpuaas.domains.pki.site import Pki
from gpuaas.infra.ca.builtin import BuiltInCa
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.secrets import MasterKey
from tests.support.people import City, city_of


@pytest.fixture(scope="module")
def pki() -> Pki:
    return Pki(ca=BuiltInCa(MasterKey(b"m" * 32)), trust_domain="cloud.example", agent_url="https://agents.example")


@pytest.fixture(scope="module")
async def city(db: Database, pki: Pki) -> AsyncIterator[City]:
    async with city_of(db, pki) as city:
        yield city
