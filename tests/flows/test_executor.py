"""What every executor of flows must do. Written against the runs' table and the story alone, so that another executor
can be held to the same."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from gpuaas.contracts.http.flows import FlowKind, FlowState
from gpuaas.domains.runs import service as runs
from gpuaas.domains.runs.models import Run
from gpuaas.flows.executor import Executor
from gpuaas.flows.story import Again, Flow, Scene, Step, StepFailed, Wait, nothing
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.errors import Conflict
from gpuaas.kit.ids import RunId, new_id
from gpuaas.kit.parts import Parts

KIND = FlowKind.ALLOCATION_PROVISION
EVERYTHING = Sight(PLATFORM)
MINUTE = timedelta(minutes=1)


class Died(BaseException):
    """The worker is gone: nothing after this line happens."""


class Told:
    """What steps did that committed, in the run's own memo; and what was tried, whether or not it committed."""

    def __init__(self) -> None:
        self.tried: list[str] = []
        self.surrendered: list[UUID] = []

    def act(self, name: str, does: Callable[[Scene], Wait | None] | None = None) -> Any:
        async def act(scene: Scene) -> Wait | None:
            self.tried.append(name)
            waits = does(scene) if does else None
            scene.memo["done"] = [*scene.memo.get("done", []), name]
            return waits

        return act

    def step(self, name: str, does: Any = None, undoes: Any = None, **options: Any) -> Step:
        options.setdefault("deadline", MINUTE)
        return Step(name, self.act(name, does), self.act(f"undo {name}", undoes), **options)

    async def surrender(self, scene: Scene) -> None:
        self.surrendered.append(scene.run.id)


@pytest.fixture
def told() -> Told:
    return Told()


def flow_of(told: Told, *steps: Step, version: int = 1, **options: Any) -> dict[FlowKind, Flow]:
    return {KIND: Flow(KIND, version, steps, told.surrender, **options)}


async def started(db: Database, **memo: Any) -> Run:
    async with db.transaction(EVERYTHING, "test") as tx:
        return await runs.run_start(tx, KIND, new_id(), org_id=None, memo=memo)


async def read(db: Database, run_id: RunId) -> Run:
    async with db.read(EVERYTHING) as tx:
        return await runs.run_get(tx, run_id)


async def finish(db: Database, flows: dict[FlowKind, Flow], run: Run, *, worker: str = "w1", **options: Any) -> Run:
    """Act until the run has ended."""
    executor = Executor(db, flows, Parts(), worker=worker, **options)
    for _ in range(500):
        await executor.run_due()
        run = await read(db, run.id)
        if run.ended_at is not None:
            return run
        await asyncio.sleep(0.02)
    raise AssertionError(f"still {run.state} at {run.step}: {run.error}")


def done(run: Run) -> list[str]:
    import msgspec

    found: list[str] = msgspec.json.decode(run.memo).get("done", [])
    return found


def fails(code: str = "broken") -> Callable[[Scene], None]:
    def fail(scene: Scene) -> None:
        raise StepFailed(code, "it cannot be")

    return fail


async def test_steps_run_in_order_and_the_run_is_done(db: Database, told: Told) -> None:
    run = await finish(db, flow_of(told, told.step("a"), told.step("b"), told.step("c")), await started(db))
    assert run.state is FlowState.DONE
    assert done(run) == ["a", "b", "c"] == told.tried


async def test_a_failed_step_is_undone_with_all_before_it_newest_first(db: Database, told: Told) -> None:
    flows = flow_of(told, told.step("a"), told.step("b"), told.step("c", fails("no_gpu")), told.step("d"))
    run = await finish(db, flows, await started(db))
    assert (run.state, run.error_code) == (FlowState.UNDONE, "no_gpu")
    assert done(run) == ["a", "b", "undo c", "undo b", "undo a"]


async def test_a_step_that_is_not_ready_is_tried_within_its_budget(db: Database, told: Told) -> None:
    def not_yet(scene: Scene) -> None:
        if told.tried.count("a") < 3:
            raise Again("not yet")

    run = await finish(db, flow_of(told, told.step("a", not_yet)), await started(db))
    assert run.state is FlowState.DONE
    assert told.tried == ["a", "a", "a"]
    assert (run.error_code, run.error) == ("", "")


async def test_a_budget_that_is_used_up_turns_the_run_round(db: Database, told: Told) -> None:
    def never(scene: Scene) -> None:
        raise ValueError("a mistake of ours")

    run = await finish(db, flow_of(told, told.step("a", never, attempts=3)), await started(db))
    assert (run.state, told.tried) == (FlowState.UNDONE, ["a", "a", "a", "undo a"])
    assert "ValueError" in run.error


async def test_an_undo_that_fails_for_good_surrenders(db: Database, told: Told) -> None:
    flows = flow_of(told, told.step("a"), told.step("b", fails(), fails(), undo_attempts=2))
    run = await finish(db, flows, await started(db))
    assert run.state is FlowState.SURRENDERED
    assert told.surrendered == [run.id]
    assert "undo a" not in told.tried


async def test_a_step_that_cannot_be_taken_back_surrenders(db: Database, told: Told) -> None:
    flows = flow_of(told, told.step("a"), Step("b", told.act("b", fails("stuck")), None, MINUTE))
    run = await finish(db, flows, await started(db))
    assert (run.state, run.error_code) == (FlowState.SURRENDERED, "stuck")


async def test_a_run_that_waits_goes_on_when_its_subject_is_woken(db: Database, told: Told) -> None:
    def once(scene: Scene) -> Wait | None:
        return Wait() if told.tried.count("a") == 1 else None

    flows, run = flow_of(told, told.step("a", once), told.step("b")), await started(db)
    executor = Executor(db, flows, Parts(), worker="w1")
    assert await executor.run_due() == 1
    assert await executor.run_due() == 0, "it waits: nobody looks at it"
    async with db.transaction(EVERYTHING, "test") as tx:
        await runs.wake(tx, run.subject_id)
    assert await executor.run_due() == 1
    assert (await read(db, run.id)).state is FlowState.DONE


async def test_a_wake_up_that_comes_while_the_step_looks_is_not_lost(db: Database, told: Told) -> None:
    run = await started(db)

    async def looks(scene: Scene) -> Wait | None:
        told.tried.append("a")
        if told.tried.count("a") == 1:
            async with db.transaction(EVERYTHING, "test") as tx:
                await runs.wake(tx, run.subject_id)
            return Wait()
        return None

    executor = Executor(db, flow_of(told, Step("a", looks, nothing, MINUTE)), Parts(), worker="w1")
    await executor.run_due()
    assert await executor.run_due() == 1
    assert (await read(db, run.id)).state is FlowState.DONE


async def test_a_step_past_its_deadline_turns_the_run_round(db: Database, told: Told) -> None:
    flows = flow_of(told, told.step("a"), told.step("b", lambda _: Wait(), deadline=timedelta(seconds=0.2)))
    run = await finish(db, flows, await started(db))
    assert (run.state, run.error_code) == (FlowState.UNDONE, "deadline")


async def test_a_cancelled_run_takes_back_what_it_did(db: Database, told: Told) -> None:
    flows, run = flow_of(told, told.step("a"), told.step("b", lambda _: Wait())), await started(db)
    await Executor(db, flows, Parts(), worker="w1").run_due()
    async with db.transaction(EVERYTHING, "test") as tx:
        await runs.run_cancel(tx, run.id, "not wanted any more")
    run = await finish(db, flows, run)
    assert (run.state, run.error_code, run.error) == (FlowState.UNDONE, "cancelled", "not wanted any more")
    assert done(run)[-2:] == ["undo b", "undo a"]
    async with db.transaction(EVERYTHING, "test") as tx:
        with pytest.raises(Conflict):
            await runs.run_cancel(tx, run.id, "again")


async def test_a_cancel_that_comes_while_a_step_runs_wins_over_the_step(db: Database, told: Told) -> None:
    run = await started(db)

    async def cancelled_meanwhile(scene: Scene) -> None:
        async with db.transaction(EVERYTHING, "test") as tx:
            await runs.run_cancel(tx, run.id, "changed my mind")
        scene.memo["done"] = ["a"]

    flows = flow_of(told, Step("a", cancelled_meanwhile, told.act("undo a"), MINUTE), told.step("b"))
    run = await finish(db, flows, run)
    assert (run.state, done(run)) == (FlowState.UNDONE, ["undo a"])


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", ["a", "b", "c"])
async def test_whoever_dies_around_a_commit_another_goes_on_and_each_step_counts_once(
    db: Database, told: Told, moment: str, step: str
) -> None:
    hit: list[str] = []

    async def die(when: str, run: Run, steps: list[str]) -> None:
        if when == moment and step in steps:
            hit.append(step)
            raise Died

    flows = flow_of(told, told.step("a"), told.step("b"), told.step("c"))
    run = await started(db)
    with pytest.raises(Died):
        await Executor(db, flows, Parts(), worker="dying", probe=die).run_due()
    async with db.transaction(EVERYTHING, "test") as tx:
        await tx.run("UPDATE flow_runs SET lease_until = now() - interval '1 second' WHERE id = $1", run.id)
    run = await finish(db, flows, run, worker="heir")
    assert hit == [step]
    assert (run.state, done(run)) == (FlowState.DONE, ["a", "b", "c"])


async def test_a_worker_whose_lease_ran_out_can_write_nothing(db: Database, told: Told) -> None:
    run, entered, leave = await started(db), asyncio.Event(), asyncio.Event()

    async def slow(scene: Scene) -> None:
        entered.set()
        await leave.wait()
        scene.memo["done"] = ["by the slow one"]

    stale = Executor(db, flow_of(told, Step("a", slow, nothing, MINUTE)), Parts(), worker="slow")
    acting = asyncio.create_task(stale.run_due())
    await entered.wait()
    async with db.transaction(EVERYTHING, "test") as tx:
        await tx.run("UPDATE flow_runs SET lease_until = now() - interval '1 second' WHERE id = $1", run.id)
    run = await finish(db, flow_of(told, told.step("a")), run, worker="heir")
    leave.set()
    await acting
    assert done(await read(db, run.id)) == ["a"]


async def test_two_workers_never_act_on_one_run(db: Database, told: Told) -> None:
    begun = [await started(db) for _ in range(30)]
    flows = flow_of(told, told.step("a"), told.step("b"))
    workers = [Executor(db, flows, Parts(), worker=f"w{n}", at_once=3) for n in range(4)]

    async def work(executor: Executor) -> None:
        while await executor.run_due():
            pass

    await asyncio.gather(*(work(executor) for executor in workers))
    for run in begun:
        assert done(await read(db, run.id)) == ["a", "b"]
    assert len(told.tried) == 60


async def test_a_subject_has_one_open_run_of_a_kind(db: Database, told: Told) -> None:
    run = await started(db)
    async with db.transaction(EVERYTHING, "test") as tx:
        again = await runs.run_start(tx, KIND, run.subject_id, org_id=None)
    assert again.id == run.id
    await finish(db, flow_of(told, told.step("a")), run)


# upgrades ------------------------------------------------------------------------------------------------------------
async def stopped_after_a(db: Database, told: Told) -> Run:
    """A run of version 1 (a, b, c) that has passed a and waits at b."""
    run = await started(db)
    flows = flow_of(told, told.step("a"), told.step("b", lambda _: Wait()), told.step("c"))
    await Executor(db, flows, Parts(), worker="old").run_due()
    async with db.transaction(EVERYTHING, "test") as tx:
        await runs.wake(tx, run.subject_id)
    told.tried.clear()
    return run


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (["a", "b", "c", "d"], ["b", "c", "d"]),
        (["a", "b", "new", "c"], ["b", "new", "c"]),
        (["a", "b"], ["b"]),
        (["a", "c"], ["c"]),
        (["a", "c", "b"], ["b", "c"]),
        (["a"], []),
    ],
    ids=["a later step is added", "one between", "a later one removed", "its own removed", "reordered", "only a left"],
)
async def test_a_run_in_flight_survives_an_upgrade(
    db: Database, told: Told, steps: list[str], expected: list[str]
) -> None:
    run = await stopped_after_a(db, told)
    run = await finish(db, flow_of(told, *(told.step(name) for name in steps), version=2), run)
    assert (run.state, run.version, told.tried) == (FlowState.DONE, 2, expected)


async def test_an_upgrade_reads_the_memo_of_the_version_before(db: Database, told: Told) -> None:
    run = await stopped_after_a(db, told)
    flows = flow_of(
        told, told.step("a"), told.step("b"), version=2, upgrade=lambda frm, memo: memo | {"done": [f"from {frm}"]}
    )
    assert done(await finish(db, flows, run)) == ["from 1", "b"]


async def test_a_step_that_was_passed_and_removed_is_taken_back_by_its_retired_undo(db: Database, told: Told) -> None:
    run = await stopped_after_a(db, told)
    flows = flow_of(told, told.step("b", fails()), version=2, retired={"a": told.act("undo a of old")})
    run = await finish(db, flows, run)
    assert (run.state, told.tried) == (FlowState.UNDONE, ["b", "undo b", "undo a of old"])


async def test_a_step_that_was_passed_and_whose_undo_is_gone_surrenders(db: Database, told: Told) -> None:
    run = await stopped_after_a(db, told)
    run = await finish(db, flow_of(told, told.step("b", fails()), version=2), run)
    assert run.state is FlowState.SURRENDERED


# operators -----------------------------------------------------------------------------------------------------------
async def test_an_operator_has_a_surrendered_undo_tried_again(db: Database, told: Told) -> None:
    broken = flow_of(told, told.step("a"), told.step("b", fails(), fails(), undo_attempts=1))
    run = await finish(db, broken, await started(db))
    assert run.state is FlowState.SURRENDERED
    async with db.transaction(EVERYTHING, "test") as tx:
        assert (await runs.run_retry(tx, run.id)).state is FlowState.UNDOING
    run = await finish(db, flow_of(told, told.step("a"), told.step("b")), run)
    assert (run.state, done(run)) == (FlowState.UNDONE, ["a", "undo b", "undo a"])
    async with db.transaction(EVERYTHING, "test") as tx:
        with pytest.raises(Conflict):
            await runs.run_retry(tx, run.id)


async def test_what_every_attempt_came_to_can_be_read(db: Database, told: Told) -> None:
    run = await finish(db, flow_of(told, told.step("a"), told.step("b", fails("no_gpu"))), await started(db))
    async with db.read(EVERYTHING) as tx:
        attempts = await runs.run_attempts(tx, run.id, limit=200)
    assert [(a.direction, a.step, a.outcome) for a in attempts] == [
        ("forward", "a", "passed"),
        ("forward", "b", "failed"),
        ("undoing", "b", "passed"),
        ("undoing", "a", "passed"),
    ]
