"""Money in flows: the deposit before anything else, the meter from the proof to the word to give back, and nothing left
of either."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.domains.billing.ledger.models import Balance, Hold
from gpuaas.domains.billing.meters import service as meters
from gpuaas.domains.billing.meters.models import Meter
from gpuaas.domains.inventory import service as inventory
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.ids import OrgId, SkuId, new_id
from tests.support.fleet import EVERYTHING
from tests.support.ground import Ground, ground_of
from tests.support.money import backdated, given, taken
from tests.support.people import at_once, found, refusal

GPU_HOUR = 3_600_000


@pytest.fixture(scope="module")
async def grounds(db: Database) -> AsyncIterator[Ground]:
    async with ground_of(db, machines=0) as made:
        yield made


@pytest.fixture
async def ground(grounds: Ground) -> Ground:
    """A machine that is nobody's, and plenty of money."""
    await grounds.anew()
    await taken(grounds.db, grounds.org_id)
    await given(grounds.db, grounds.org_id)
    return grounds


async def balance(ground: Ground) -> Balance:
    async with ground.db.read(EVERYTHING) as tx:
        return await ledger.balance_at(tx, OrgId(ground.org_id))


async def deposit(ground: Ground, allocation_id: UUID) -> Hold | None:
    async with ground.db.read(EVERYTHING) as tx:
        return await ledger.hold_find(tx, f"allocation:{allocation_id}")


async def meter(ground: Ground, allocation_id: UUID) -> Meter | None:
    async with ground.db.read(EVERYTHING) as tx:
        return await meters.meter_get(tx, allocation_id)


async def value(ground: Ground, sql: str, *arguments: Any) -> Any:
    async with ground.db.read(EVERYTHING) as tx:
        return await tx.value(sql, *arguments)


async def shown(ground: Ground, allocation_id: UUID) -> Any:
    return found(await ground.say("GET", f"/{allocation_id}"), 200)


async def test_an_hour_is_set_aside_and_charged_by_the_second_from_the_proof_to_the_release(
    ground: Ground, superuser: Any
):
    before = await balance(ground)
    made = await ground.active(2)
    held = await deposit(ground, made.id)
    assert held is not None
    assert (held.state, held.amount_micros, held.subject_id) == ("open", 2 * GPU_HOUR, made.id)
    assert held.due_at is not None
    assert made.expires_at is not None
    assert held.due_at > made.expires_at
    opened = await meter(ground, made.id)
    proven = await value(ground, "SELECT max(at) FROM allocation_proofs WHERE allocation_id = $1", made.id)
    assert opened is not None
    assert (opened.opened_at, opened.closed_at) == (proven, None)
    await backdated(superuser, made.id, 1_000)
    running = await shown(ground, made.id)
    assert running["charging"] is True
    assert running["usable_seconds"] >= 1_000
    assert running["cost_micros"] == running["usable_seconds"] * 2_000
    assert (running["held_micros"], running["runway_seconds"] > 0) == (2 * GPU_HOUR, True)
    await ground.release(made.id)
    closed = await meter(ground, made.id)
    asked = (await ground.read(made.id)).release_requested_at
    assert closed is not None
    assert closed.closed_at == asked, "charging ends with the word, before any node has heard of it"
    await ground.run()
    settled, after = await meter(ground, made.id), await balance(ground)
    assert settled is not None
    assert settled.settled_at is not None
    assert before.balance_micros - after.balance_micros == settled.billed_micros == settled.billed_seconds * 2_000
    ended = await deposit(ground, made.id)
    assert ended is not None
    assert (ended.state, after.held_micros) == ("voided", before.held_micros)
    assert (await shown(ground, made.id))["cost_micros"] == settled.billed_micros
    moments = [one["phase"] for one in found(await ground.say("GET", f"/{made.id}/timeline"), 200)["moments"]]
    assert moments.index("reserved") < moments.index("held") < moments.index("leased")
    assert "settled" in moments
    assert await ground.leftovers() == []


async def test_what_cannot_be_paid_for_is_refused_at_once_with_what_to_do(ground: Ground):
    await taken(ground.db, ground.org_id, leaves=2 * GPU_HOUR - 1)
    estimate = await ground.estimate(gpu_count=2)
    assert (estimate["hold_micros"], estimate["affordable"]) == (2 * GPU_HOUR, False)
    assert (estimate["available_micros"], estimate["hold_minutes"]) == (2 * GPU_HOUR - 1, 60)
    refused = await ground.ask(gpu_count=2)
    assert refusal(refused) == (409, "balance_too_low")
    message = refused.json()["error"]["message"]
    for told in ("7.20 USD", "60 minutes", "Available is 7.199999 USD", "gpuaas billing top-up 5.00"):
        assert told in message, message
    enough = UUID(found(await ground.ask(gpu_count=1), 202)["id"])
    await ground.run()
    await ground.release(enough)
    await ground.run()


async def test_the_estimate_says_what_is_set_aside_and_for_how_long_the_balance_lasts_with_it(ground: Ground):
    await taken(ground.db, ground.org_id, leaves=10 * GPU_HOUR)
    estimate = await ground.estimate(gpu_count=2)
    assert (estimate["micros_per_hour"], estimate["hold_micros"]) == (2 * GPU_HOUR, 2 * GPU_HOUR)
    assert (estimate["affordable"], estimate["runway_seconds"]) == (True, 5 * 3_600)


async def test_of_fifty_requests_at_once_on_money_for_one_one_becomes_active(ground: Ground):
    for _ in range(6):
        await ground.machine()
    await taken(ground.db, ground.org_id, leaves=GPU_HOUR)
    answers = await at_once(*(ground.ask() for _ in range(50)))
    asked = [UUID(one.json()["id"]) for one in answers if one.status_code == 202]
    assert {refusal(one) for one in answers if one.status_code != 202} <= {(409, "balance_too_low")}
    await ground.run()
    ends = [await ground.read(one) for one in asked]
    assert [one.state for one in ends].count(AllocationState.ACTIVE) == 1
    failed = [one for one in ends if one.state is not AllocationState.ACTIVE]
    assert {(one.state, one.failure_code) for one in failed} <= {(AllocationState.FAILED, "balance_too_low")}
    assert await ground.leftovers() == []
    [active] = [one for one in ends if one.state is AllocationState.ACTIVE]
    await ground.release(active.id)
    await ground.run()


async def test_one_that_waits_takes_its_deposit_when_it_is_served_and_fails_if_there_is_no_money_then(ground: Ground):
    first = await ground.active(8)
    waiting = UUID(found(await ground.ask(if_full="queue"), 202)["id"])
    assert await deposit(ground, waiting) is None
    await taken(ground.db, ground.org_id)
    await ground.release(first.id)
    await taken(ground.db, ground.org_id)
    await ground.run()
    await taken(ground.db, ground.org_id)
    await ground.serve()
    await ground.run()
    ended = await ground.read(waiting)
    assert (ended.state, ended.failure_code) == (AllocationState.FAILED, "balance_too_low")
    assert "gpuaas billing top-up" in ended.failure
    assert await ground.leftovers() == []


async def test_what_fails_on_its_way_costs_nothing_and_gives_its_deposit_back(ground: Ground):
    before = await balance(ground)
    made = await ground.reserve(1)
    executor = ground.executor()
    await executor.run_due()
    held = await deposit(ground, made.id)
    assert held is not None
    assert held.state == "open"
    await ground.release(made.id)
    await ground.run()
    ended = await deposit(ground, made.id)
    assert ended is not None
    assert (ended.state, (await balance(ground)).balance_micros) == ("voided", before.balance_micros)
    assert await meter(ground, made.id) is None
    assert await ground.leftovers() == []


async def test_a_renewal_lets_the_deposit_last_as_long(ground: Ground):
    made = await ground.active(1)
    before = await deposit(ground, made.id)
    found(await ground.say("POST", f"/{made.id}/renew", {"lease_hours": 100}), 200)
    after, renewed = await deposit(ground, made.id), await ground.read(made.id)
    assert before is not None
    assert after is not None
    assert after.due_at is not None
    assert before.due_at is not None
    assert renewed.expires_at is not None
    assert after.due_at > max(before.due_at, renewed.expires_at)
    assert after.amount_micros == before.amount_micros
    await ground.release(made.id)
    await ground.run()


async def test_what_its_silent_node_cannot_prove_is_not_charged(ground: Ground, superuser: Any):
    made = await ground.active(1)
    await backdated(superuser, made.id, 2_000)
    [machine] = ground.machines
    machine.silent = True
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        seen = await tx.value(
            "UPDATE node_heartbeats SET liveness = 'unknown', seen_at = now() - interval '10 minutes' "
            "WHERE node_id = $1 RETURNING seen_at",
            machine.id,
        )
    await ground.release(made.id)
    closed = await meter(ground, made.id)
    assert closed is not None
    assert (closed.closed_at, closed.close_reason) == (seen, "the last sign of life of its node")
    machine.silent = False
    await machine.beat()
    await ground.run()
    assert (await ground.read(made.id)).state is AllocationState.RELEASED


async def test_a_release_that_cannot_be_proven_settles_all_the_same(ground: Ground):
    made = await ground.active(1)
    await ground.release(made.id)
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        allocation = await allocations.allocation_lock(tx, made.id)
        await allocations.release_failed(tx, ground.fleet.city.policy, allocation, reason="as asked")
    settled, held = await meter(ground, made.id), await deposit(ground, made.id)
    assert settled is not None
    assert settled.settled_at is not None
    assert held is not None
    assert held.state == "voided"


async def test_what_costs_nothing_needs_no_money(ground: Ground):
    await taken(ground.db, ground.org_id)
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        price = await inventory.prices_now(tx, [SkuId(ground.sku_id)])
        free = new_id()
        await tx.run(
            "INSERT INTO sku_prices (id, sku_id, currency, micros_per_gpu_hour, valid_from, set_by) "
            "VALUES ($1, $2, 'USD', 0, now(), 'test')",
            free,
            ground.sku_id,
        )
    try:
        made = UUID(found(await ground.ask(), 202)["id"])
        await ground.run()
        assert (await ground.read(made)).state is AllocationState.ACTIVE
        assert await deposit(ground, made) is None
        await ground.release(made)
        await ground.run()
        assert await ground.leftovers() == []
    finally:
        async with ground.db.transaction(EVERYTHING, "test") as tx:
            await tx.run(
                "INSERT INTO sku_prices (id, sku_id, currency, micros_per_gpu_hour, valid_from, set_by) "
                "VALUES ($1, $2, 'USD', $3, now(), 'test')",
                new_id(),
                ground.sku_id,
                price[SkuId(ground.sku_id)].micros_per_gpu_hour,
            )
