"""Every event of money that no example tells is told once, by its story."""

from collections.abc import AsyncIterator

import pytest

from gpuaas.infra.postgres.database import Database
from tests.every.billing_stories import BILLING_STORIES
from tests.support.purse import Purse, purse_of


@pytest.fixture(scope="module")
async def purse(db: Database) -> AsyncIterator[Purse]:
    async with purse_of(db) as made:
        yield made


@pytest.mark.parametrize("name", BILLING_STORIES)
async def test_every_event_of_money_is_told_once_by_its_story(purse: Purse, name: str):
    subject_id = await BILLING_STORIES[name](purse)
    async with purse.reading() as tx:
        told = await tx.rows("SELECT FROM outbox WHERE name = $1 AND subject_id = $2", name, subject_id)
    assert len(told) == 1
