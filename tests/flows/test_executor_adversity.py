"""What an executor does when it is hit at the worst moment. Like the tests of `test_executor`, for any executor."""

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.flows import FlowState
from gpuaas.domains.runs import service as runs
from gpuaas.flows.executor import Executor
from gpuaas.flows.story import Again, Scene, Step, StepFailed, nothing
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.errors import Conflict
from gpuaas.kit.parts import Parts
from tests.flows.test_executor import EVERYTHING, KIND, MINUTE, Told, done, fails, finish, flow_of, read, started

# The tests wait for ten seconds at most: whoever leaves a run to its lease of half a minute is found out.


class Silence:
    """Nobody hints at anything."""

    def listen(self, subject: str, heard: Any) -> None: ...
    def tell(self, subject: str) -> None: ...


@pytest.fixture
def told() -> Told:
    return Told()


async def test_a_cancel_that_comes_while_a_step_fails_turns_the_run_round_at_once(db: Database, told: Told) -> None:
    run = await started(db)

    async def cancelled_and_not_ready(scene: Scene) -> None:
        async with db.transaction(EVERYTHING, "test") as tx:
            await runs.run_cancel(tx, run.id, "changed my mind")
        raise Again("not yet")

    run = await finish(db, flow_of(told, Step("a", cancelled_and_not_ready, told.act("undo a"), MINUTE)), run)
    assert (run.state, run.error_code, done(run)) == (FlowState.UNDONE, "cancelled", ["undo a"])


@pytest.mark.parametrize(
    "refusal", [asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError, asyncpg.ConnectionDoesNotExistError]
)
async def test_what_the_database_takes_back_is_tried_again_at_once_and_uses_up_no_attempt(
    db: Database, told: Told, refusal: type[Exception]
) -> None:
    def unlucky(scene: Scene) -> None:
        if told.tried.count("a") < 4:
            raise refusal("the database took it back")

    run = await finish(db, flow_of(told, told.step("a", unlucky, attempts=1)), await started(db))
    assert (run.state, done(run)) == (FlowState.DONE, ["a"])


async def test_a_reason_no_database_can_keep_is_kept_as_far_as_it_can_be(db: Database, told: Told) -> None:
    def unspeakable(scene: Scene) -> None:
        raise StepFailed("broken\x00", "half a character: \ud83d, and \x00")

    run = await finish(db, flow_of(told, told.step("a", unspeakable)), await started(db))
    assert run.state is FlowState.UNDONE
    assert "half a character" in run.error


async def test_a_memo_no_database_can_keep_fails_its_step_within_its_budget(db: Database, told: Told) -> None:
    def poisons(scene: Scene) -> None:
        scene.memo["poison"] = "\x00"

    run = await finish(db, flow_of(told, told.step("a", poisons, attempts=2)), await started(db))
    assert (run.state, told.tried) == (FlowState.UNDONE, ["a", "a", "undo a"])


async def test_a_worker_goes_on_whatever_it_met_while_it_looked_for_work(
    db: Database, told: Told, superuser: Any
) -> None:
    executor = Executor(db, flow_of(told, told.step("a")), Parts(), worker="w1")
    await superuser.execute("ALTER TABLE flow_runs RENAME TO flow_runs_away")
    working = asyncio.create_task(executor.run(Silence()))
    try:
        await asyncio.wait({working}, timeout=0.3)
        await superuser.execute("ALTER TABLE flow_runs_away RENAME TO flow_runs")
        run = await started(db)
        for _ in range(500):
            if (await read(db, run.id)).state is FlowState.DONE or working.done():
                break
            await asyncio.sleep(0.02)
        assert not working.done(), "a table that was away for a moment has ended the worker"
        assert (await read(db, run.id)).state is FlowState.DONE
    finally:
        working.cancel()
        await asyncio.wait({working})


async def test_a_surrendered_run_is_not_reopened_beside_one_that_is_under_way(db: Database, told: Told) -> None:
    flows = flow_of(told, Step("a", told.act("a", fails()), None, MINUTE))
    old = await finish(db, flows, await started(db))
    assert old.state is FlowState.SURRENDERED
    async with db.transaction(EVERYTHING, "test") as tx:
        await runs.run_start(tx, KIND, old.subject_id, org_id=None)
    with pytest.raises(Conflict) as refused:
        async with db.transaction(EVERYTHING, "test") as tx:
            await runs.run_retry(tx, old.id)
    assert refused.value.code == Code.FLOW_ENDED


async def test_a_run_nobody_can_end_is_given_up_and_its_worker_writes_nothing_more(db: Database, told: Told) -> None:
    async def cannot(scene: Scene) -> None:
        raise RuntimeError("a mistake of ours")

    flows = flow_of(told, Step("a", told.act("a", fails()), told.act("undo a", fails()), MINUTE))
    flows = {kind: type(flow)(flow.kind, flow.version, flow.steps, cannot) for kind, flow in flows.items()}
    run, executor = await started(db), Executor(db, flows, Parts(), worker="w1")
    for _ in range(3):
        await executor.run_due()
    async with db.transaction(EVERYTHING, "test") as tx:
        assert not await runs.run_give_up(tx, run.id, "not yet"), "it is within its deadline"
        await tx.run("UPDATE flow_runs SET due_at = now() - interval '3 minutes' WHERE id = $1", run.id)
        assert await runs.run_give_up(tx, run.id, "nobody could end it")
    ended = await read(db, run.id)
    assert (ended.state, ended.error) == (FlowState.SURRENDERED, "it cannot be")


async def test_a_step_is_never_late_by_the_clock_of_its_worker(
    db: Database, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpuaas.kit import clock

    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + timedelta(hours=5))
    run = await finish(db, flow_of(told, told.step("a"), Step("b", told.act("b"), nothing, MINUTE)), await started(db))
    assert (run.state, done(run)) == (FlowState.DONE, ["a", "b"])
