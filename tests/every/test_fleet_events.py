"""Every event of the fleet is told once, by what agents say and do not say."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpuaas.infra.postgres.database import Database
from tests.every.fleet_stories import STORIES
from tests.support.fleet import Fleet, fleet_of


@pytest.fixture(scope="module")
async def fleet(db: Database) -> AsyncIterator[Fleet]:
    async with fleet_of(db) as made:
        yield made


@pytest.mark.parametrize("name", STORIES)
async def test_every_event_of_the_fleet_is_told_once_by_its_story(fleet: Fleet, superuser: Any, name: str):
    subject_id = await STORIES[name](fleet, superuser)
    assert len(await fleet.events(name, subject_id)) == 1
