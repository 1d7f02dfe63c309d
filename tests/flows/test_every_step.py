"""Every flow × every step and every undo: failed, killed before its commit, killed after it, run twice. What is listed
here comes from the flows themselves, and each test proves that it hit the step it is about."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, Protocol

import pytest

from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.contracts.http.flows import FlowKind, FlowState
from gpuaas.domains.allocations.models import Allocation
from gpuaas.domains.runs.models import Run
from gpuaas.flows.catalogue import FLOWS
from gpuaas.flows.story import Act, Flow, Scene, StepFailed, Wait
from gpuaas.infra.postgres.database import Database
from tests.support.fleet import EVERYTHING
from tests.support.ground import Ground, ground_of

ELSEWHERE = frozenset({FlowKind.PAYMENT_REFUND})
"""Those about money alone: test_refund_steps.py does the same to them."""
FORWARD = [(kind, step.name) for kind, flow in FLOWS.items() if kind not in ELSEWHERE for step in flow.steps]
BACKWARD = [(kind, name) for kind, name in FORWARD if next(s for s in FLOWS[kind].steps if s.name == name).undo]
MOMENTS = ["before", "after", "twice"]
ENDS = {
    FlowKind.ALLOCATION_PROVISION: AllocationState.ACTIVE,
    FlowKind.ALLOCATION_STOP: AllocationState.STOPPED,
    FlowKind.ALLOCATION_START: AllocationState.ACTIVE,
    FlowKind.ALLOCATION_RELEASE: AllocationState.RELEASED,
}
FAILS = {
    FlowKind.ALLOCATION_PROVISION: AllocationState.FAILED,
    FlowKind.ALLOCATION_STOP: AllocationState.STOPPED,
    FlowKind.ALLOCATION_START: AllocationState.STOPPED,
    FlowKind.ALLOCATION_RELEASE: AllocationState.RELEASE_FAILED,
}


class HasDatabase(Protocol):
    @property
    def db(self) -> Database: ...


class Died(BaseException):
    """The worker is gone: nothing after this line happens."""


@pytest.fixture(scope="module")
async def ground(db: Database) -> AsyncIterator[Ground]:
    async with ground_of(db, machines=0) as made:
        yield made


async def begun(ground: Ground, kind: FlowKind) -> Allocation:
    """An allocation on a machine of its own, with this flow before it."""
    await ground.anew()
    if kind is FlowKind.ALLOCATION_PROVISION:
        return await ground.reserve(2)
    allocation = await ground.active(2)
    if kind is FlowKind.ALLOCATION_RELEASE:
        await ground.release(allocation.id)
        return allocation
    await ground.stop(allocation.id)
    if kind is FlowKind.ALLOCATION_START:
        await ground.run()
        await ground.start(allocation.id)
    return allocation


def changed(kind: FlowKind, name: str, *, do: Act | None = None, undo: Act | None = None) -> dict[FlowKind, Flow]:
    """All flows, one with another `do` or `undo` of one step."""
    flow = FLOWS[kind]
    steps = tuple(
        replace(step, do=do or step.do, undo=undo or step.undo) if step.name == name else step for step in flow.steps
    )
    return {**FLOWS, kind: replace(flow, steps=steps)}


def turned_round(kind: FlowKind, hit: list[str]) -> dict[FlowKind, Flow]:
    """The flow, failing at its last step once everything before it is done."""

    async def fail(scene: Scene) -> None:
        hit.append("turned round")
        raise StepFailed("as_asked", "the last step was told to fail")

    return changed(kind, FLOWS[kind].steps[-1].name, do=fail)


def dying(
    kind: FlowKind, name: str, state: FlowState, moment: str, hit: list[str], ground: HasDatabase
) -> Callable[..., Any]:
    """Die once, at this moment of this step; `twice`: after its commit, with the progress it made forgotten."""

    async def probe(when: str, run: Run, steps: list[str]) -> None:
        if hit.count("died") or name not in steps or (run.kind, run.state) != (kind, state):
            return
        if when != ("before" if moment == "before" else "after"):
            return
        hit.append("died")
        if moment == "twice":
            async with ground.db.transaction(EVERYTHING, "test") as tx:
                await tx.run(
                    "UPDATE flow_runs SET state = $2, step = $3, passed = $4, memo = $5::jsonb, ended_at = NULL, "
                    "next_at = now(), due_at = now() + interval '5 minutes' WHERE id = $1",
                    run.id,
                    run.state,
                    run.step,
                    run.passed,
                    run.memo,
                )
        raise Died

    return probe


async def survive(ground: Ground, flows: dict[FlowKind, Flow], probe: Callable[..., Any]) -> None:
    """Run until it dies, then let another worker go on: its lease is over."""
    with pytest.raises(Died):
        await ground.run(ground.executor(flows, worker="dying", probe=probe))
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        await tx.run("UPDATE flow_runs SET lease_until = now() - interval '1 second' WHERE lease_until IS NOT NULL")
    await ground.run(ground.executor(flows, worker="heir"))


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(("kind", "name"), FORWARD, ids=[f"{kind}-{name}" for kind, name in FORWARD])
async def test_a_worker_that_dies_at_a_step_leaves_a_story_that_ends_as_if_nothing_were(
    ground: Ground, kind: FlowKind, name: str, moment: str
) -> None:
    allocation = await begun(ground, kind)
    hit: list[str] = []
    await survive(ground, FLOWS, dying(kind, name, FlowState.FORWARD, moment, hit, ground))
    assert hit == ["died"]
    ended = await ground.read(allocation.id)
    assert ended.state is ENDS[kind], ended.failure
    assert await ground.leftovers() == []
    await once(ground, allocation)


@pytest.mark.parametrize(("kind", "name"), FORWARD, ids=[f"{kind}-{name}" for kind, name in FORWARD])
async def test_a_step_that_fails_ends_the_story_with_nothing_left(ground: Ground, kind: FlowKind, name: str) -> None:
    allocation = await begun(ground, kind)
    hit: list[str] = []

    async def fail(scene: Scene) -> None:
        hit.append(name)
        raise StepFailed("as_asked", "it was told to fail")

    await ground.run(ground.executor(changed(kind, name, do=fail)))
    assert set(hit) == {name}
    ended = await ground.read(allocation.id)
    assert (ended.state, ended.failure) == (FAILS[kind], "it was told to fail")
    assert await ground.leftovers() == []
    await free_or_quarantined(ground, allocation)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(("kind", "name"), BACKWARD, ids=[f"{kind}-{name}" for kind, name in BACKWARD])
async def test_a_worker_that_dies_while_a_step_is_taken_back_leaves_nothing(
    ground: Ground, kind: FlowKind, name: str, moment: str
) -> None:
    allocation = await begun(ground, kind)
    hit: list[str] = []
    await survive(ground, turned_round(kind, hit), dying(kind, name, FlowState.UNDOING, moment, hit, ground))
    assert sorted(set(hit)) == ["died", "turned round"]
    assert (await ground.read(allocation.id)).state is FAILS[kind]
    assert (await ground.flow(allocation.id, kind)).state is FlowState.UNDONE
    assert await ground.leftovers() == []
    await free_or_quarantined(ground, allocation)


@pytest.mark.parametrize(("kind", "name"), BACKWARD, ids=[f"{kind}-{name}" for kind, name in BACKWARD])
async def test_an_undo_that_fails_surrenders_and_nobody_is_given_what_is_left(
    ground: Ground, kind: FlowKind, name: str
) -> None:
    allocation = await begun(ground, kind)
    hit: list[str] = []

    async def fail(scene: Scene) -> Wait | None:
        hit.append(name)
        raise StepFailed("as_asked", "its undo was told to fail")

    flows = turned_round(kind, hit)
    last = flows[kind].steps[-1].name
    flow = flows[kind]
    flows[kind] = replace(
        flow, steps=tuple(replace(step, undo=fail) if step.name == name else step for step in flow.steps)
    )
    await ground.run(ground.executor(flows))
    assert (hit[0], set(hit)) == ("turned round", {"turned round", name}), last
    assert (await ground.flow(allocation.id, kind)).state is FlowState.SURRENDERED
    assert (await ground.read(allocation.id)).state is FAILS[kind]
    async with ground.db.read(EVERYTHING) as tx:
        free = await tx.value(
            "SELECT count(*) FROM slot_holds h JOIN allocations a ON a.id = h.allocation_id WHERE h.allocation_id = $1 "
            "AND NOT (h.ended_at IS NULL AND a.state = 'stopped') AND NOT EXISTS "
            "(SELECT FROM slot_quarantines q WHERE q.serial = h.serial AND q.ended_at IS NULL)",
            allocation.id,
        )
    assert free == 0
    assert [found for found in await ground.leftovers() if found.startswith("invariant")] == []


async def once(ground: Ground, allocation: Allocation) -> None:
    """Whatever ran twice had one effect."""
    async with ground.db.read(EVERYTHING) as tx:
        rows = await tx.rows(
            "SELECT phase, count(*) FROM allocation_timeline WHERE allocation_id = $1 "
            "AND phase IN ('active', 'stopped', 'started', 'released', 'failed') GROUP BY phase HAVING count(*) > 1",
            allocation.id,
        )
        told = await tx.rows(
            "SELECT name, count(*) FROM outbox WHERE subject_id = $1 AND name IN "
            "('allocation.active', 'allocation.stopped', 'allocation.started', 'allocation.released', "
            "'allocation.failed') GROUP BY name HAVING count(*) > 1",
            allocation.id,
        )
    assert (list(rows), list(told)) == ([], [])


async def free_or_quarantined(ground: Ground, allocation: Allocation) -> None:
    """No slot is held for what is no more; what could not be proven clean is in quarantine. What is stopped keeps its
    own."""
    async with ground.db.read(EVERYTHING) as tx:
        rows = await tx.rows(
            "SELECT h.state, EXISTS (SELECT FROM slot_quarantines q WHERE q.serial = h.serial AND q.ended_at IS NULL) "
            "OR a.state = 'stopped' AS kept "
            "FROM slot_holds h JOIN allocations a ON a.id = h.allocation_id WHERE h.allocation_id = $1",
            allocation.id,
        )
    for row in rows:
        assert row["state"] in ("unused", "clean") or row["kept"], dict(row)
