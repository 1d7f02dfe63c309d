"""Every event of payments is told once, by its story."""

from collections.abc import AsyncIterator

import pytest

from gpuaas.infra.postgres.database import Database
from tests.every.payment_stories import PAYMENT_STORIES
from tests.support.till import Till, till_of


@pytest.fixture(scope="module")
async def till(db: Database, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Till]:
    async with till_of(db, tmp_path_factory.mktemp("provider")) as made:
        yield made


@pytest.mark.parametrize("name", PAYMENT_STORIES)
async def test_every_event_of_payments_is_told_once_by_its_story(till: Till, name: str):
    subject_id = await PAYMENT_STORIES[name](till)
    assert len(await till.events(name, subject_id)) == 1
    assert await till.broken() == []
