"""Flows that ended long ago are forgotten with their attempts; what is under way is kept, whoever asks."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from gpuaas.domains.runs.handlers import runs_prune
from gpuaas.infra.postgres.database import Database
from gpuaas.kit import clock
from gpuaas.kit.ids import floor_id, new_id
from tests.support.fleet import EVERYTHING
from tests.support.ground import Ground, ground_of

RUN = """
INSERT INTO flow_runs (id, kind, version, subject_id, state, step, due_at, correlation_id, traceparent, created_by,
                       ended_at)
VALUES ($1, 'allocation.provision', 1, $2, $3, 'lease', now(), '', '', 'test',
        CASE WHEN $3 IN ('forward', 'undoing') THEN NULL ELSE now() END)
"""
ATTEMPT = """
INSERT INTO flow_attempts (run_id, fence, number, direction, step, outcome, worker)
VALUES ($1, 1, 101, 'forward', 'lease', 'passed', 'w1')
"""


@pytest.fixture(scope="module")
async def ground(db: Database) -> AsyncIterator[Ground]:
    async with ground_of(db, machines=0) as made:
        yield made


async def put(superuser: Any, state: str, *, days: int) -> UUID:
    """A run with an attempt, begun so many days ago."""
    run_id = UUID(int=floor_id(clock.now() - timedelta(days=days)).int | new_id().int & 0xFFFFFFFF)
    await superuser.execute(RUN, run_id, new_id(), state)
    await superuser.execute(ATTEMPT, run_id)
    return run_id


async def test_flows_that_ended_long_ago_are_forgotten_with_their_attempts(ground: Ground, superuser: Any) -> None:
    gone = {await put(superuser, state, days=91) for state in ("done", "undone", "surrendered")}
    kept = {await put(superuser, state, days=91) for state in ("forward", "undoing")}
    kept.add(await put(superuser, "done", days=89))
    await runs_prune(ground.parts)
    for table, column in (("flow_runs", "id"), ("flow_attempts", "run_id")):
        rows = await superuser.fetch(f"SELECT {column} AS id FROM {table} WHERE {column} = ANY($1)", [*gone, *kept])
        assert {row["id"] for row in rows} == kept, table


async def test_the_application_can_delete_no_flow_that_is_under_way(ground: Ground, superuser: Any) -> None:
    run_id = await put(superuser, "forward", days=400)
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        assert await tx.run("DELETE FROM flow_runs WHERE id = $1", run_id) == 0
    assert await superuser.fetchval("SELECT count(*) FROM flow_attempts WHERE run_id = $1", run_id) == 1
