"""payment.refund × every step and undo: failed, killed before its commit, killed after it, run twice; the provider
answers over a real socket. Whatever happens, the payer gets his money once or not at all, and the books say which."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from gpuaas.contracts.http.flows import FlowKind, FlowState
from gpuaas.contracts.http.payments import RefundState
from gpuaas.domains.payments.refunds import service as refunds
from gpuaas.domains.payments.refunds.models import Refund
from gpuaas.domains.runs import service as runs
from gpuaas.flows.catalogue import FLOWS
from gpuaas.flows.executor import Executor
from gpuaas.flows.story import Flow, Scene, StepFailed, Wait
from gpuaas.infra.postgres.database import Database
from tests.every.payment_stories import refund
from tests.flows.test_every_step import ELSEWHERE, MOMENTS, Died, changed, dying, turned_round
from tests.support.purse import EVERYTHING
from tests.support.till import MICROS, Till, till_of

KIND = FlowKind.PAYMENT_REFUND
STEPS = [step.name for step in FLOWS[KIND].steps]
UNDONE = [step.name for step in FLOWS[KIND].steps if step.undo is not None]
AMOUNT = 20 * MICROS


@pytest.fixture(scope="module")
async def till(db: Database, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Till]:
    async with till_of(db, tmp_path_factory.mktemp("provider")) as made:
        yield made


def test_it_is_the_only_flow_that_is_tested_here() -> None:
    assert {KIND} == ELSEWHERE


async def begun(till: Till) -> tuple[UUID, int]:
    """A refund with its flow before it, and what the organisation has."""
    payment = await till.paid()
    before = (await till.purse.balance()).balance_micros
    return await refund(till, payment["id"], 20), before


async def run(till: Till, flows: dict[FlowKind, Flow] | None = None, **options: Any) -> None:
    executor = Executor(till.db, flows or FLOWS, till.purse.city.parts, **({"worker": "w1"} | options))
    for _ in range(20):
        if not await executor.run_due():
            return


async def survive(till: Till, flows: dict[FlowKind, Flow], probe: Callable[..., Any]) -> None:
    with pytest.raises(Died):
        await run(till, flows, worker="dying", probe=probe)
    async with till.db.transaction(EVERYTHING, "test") as tx:
        await tx.run("UPDATE flow_runs SET lease_until = now() - interval '1 second' WHERE lease_until IS NOT NULL")
    await run(till, flows, worker="heir")


async def read(till: Till, refund_id: UUID) -> Refund:
    async with till.purse.reading() as tx:
        return await refunds.refund_get(tx, refund_id)


async def flow_state(till: Till, refund_id: UUID) -> FlowState:
    async with till.purse.reading() as tx:
        newest = UUID(int=(1 << 128) - 1)
        found = await runs.run_list(tx, before=newest, state=None, kind=KIND, subject_id=refund_id, limit=1)
    return found[0].state


async def given_back(till: Till, refund_id: UUID) -> int:
    """How often the provider has paid it back."""
    said = [one async for one in till.stripe.refunds((await read(till, refund_id)).created_at)]
    return sum(one.refund_id == refund_id for one in said)


async def assert_settled(till: Till, refund_id: UUID, before: int) -> None:
    """What the provider says is in the books, once; nothing stays set aside."""
    await till.told()
    times = await given_back(till, refund_id)
    assert times <= 1
    balance = await till.purse.balance()
    assert (balance.balance_micros, balance.held_micros) == (before - times * AMOUNT, 0)
    assert (await read(till, refund_id)).state == (RefundState.SUCCEEDED if times else RefundState.FAILED)
    assert await till.broken() == []


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", STEPS)
async def test_a_worker_that_dies_at_a_step_pays_back_once(till: Till, name: str, moment: str) -> None:
    refund_id, before = await begun(till)
    hit: list[str] = []
    await survive(till, dict(FLOWS), dying(KIND, name, FlowState.FORWARD, moment, hit, till))
    assert hit == ["died"]
    assert (await read(till, refund_id)).state is RefundState.SUCCEEDED
    assert await given_back(till, refund_id) == 1
    await assert_settled(till, refund_id, before)


@pytest.mark.parametrize("name", STEPS)
async def test_a_step_that_fails_ends_the_story_and_what_the_provider_did_is_found_all_the_same(
    till: Till, name: str
) -> None:
    refund_id, before = await begun(till)
    hit: list[str] = []

    async def fail(scene: Scene) -> None:
        hit.append(name)
        raise StepFailed("as_asked", "it was told to fail")

    await run(till, changed(KIND, name, do=fail))
    assert set(hit) == {name}
    failed = await read(till, refund_id)
    assert (failed.state, failed.failure) == (RefundState.FAILED, "it was told to fail")
    assert (await till.purse.balance()).held_micros == 0
    await assert_settled(till, refund_id, before)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", UNDONE)
async def test_a_worker_that_dies_while_a_step_is_taken_back_leaves_nothing(till: Till, name: str, moment: str) -> None:
    refund_id, before = await begun(till)
    hit: list[str] = []
    await survive(till, turned_round(KIND, hit), dying(KIND, name, FlowState.UNDOING, moment, hit, till))
    assert sorted(set(hit)) == ["died", "turned round"]
    assert await flow_state(till, refund_id) is FlowState.UNDONE
    await assert_settled(till, refund_id, before)


@pytest.mark.parametrize("name", UNDONE)
async def test_an_undo_that_fails_surrenders_and_what_is_set_aside_stays_so(till: Till, name: str) -> None:
    refund_id, before = await begun(till)
    hit: list[str] = []

    async def fail(scene: Scene) -> Wait | None:
        hit.append(name)
        raise StepFailed("as_asked", "its undo was told to fail")

    flows = turned_round(KIND, hit)
    flow = flows[KIND]
    steps = tuple(replace(step, undo=fail) if step.name == name else step for step in flow.steps)
    await till.order("webhooks", paused=True)
    await run(till, {**flows, KIND: replace(flow, steps=steps)})
    assert (hit[0], set(hit)) == ("turned round", {"turned round", name})
    assert await flow_state(till, refund_id) is FlowState.SURRENDERED
    assert (await read(till, refund_id)).state is RefundState.FAILED
    assert (await till.purse.balance()).held_micros == AMOUNT
    await till.order("clear")
    await assert_settled(till, refund_id, before)  # the provider had paid it back, and that is found
