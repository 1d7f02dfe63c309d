"""Every event of allocations is told once by its story."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gpuaas.infra.postgres.database import Database
from tests.every.allocation_stories import ALLOCATION_STORIES
from tests.support.ground import Ground, ground_of


@pytest.fixture(scope="module")
async def grounds(db: Database) -> AsyncIterator[Ground]:
    async with ground_of(db, machines=0) as made:
        yield made


@pytest.fixture
async def ground(grounds: Ground) -> AsyncIterator[Ground]:
    policy = dict(grounds.fleet.city.policy.values)
    await grounds.anew()
    yield grounds
    grounds.fleet.city.policy.values = policy


@pytest.mark.parametrize("name", ALLOCATION_STORIES)
async def test_every_event_of_allocations_is_told_once_by_its_story(ground: Ground, superuser: Any, name: str):
    subject_id = await ALLOCATION_STORIES[name](ground, superuser)
    assert len(await ground.fleet.events(name, subject_id)) == 1
