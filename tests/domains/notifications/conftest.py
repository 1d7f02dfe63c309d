"""An organisation whose people are told things, and their mail server."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpuaas.infra.postgres.database import Database
from tests.support.post_office import PostOffice, post_office


@pytest.fixture
async def office(db: Database, superuser: Any) -> AsyncIterator[PostOffice]:
    """What the test before left is not sent in this one."""
    await superuser.execute("DELETE FROM emails")
    async with post_office(db) as made:
        yield made
