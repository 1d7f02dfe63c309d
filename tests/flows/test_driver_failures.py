"""What hosts do to the stories: each way to fail ends in its documented state, and nobody is given a GPU that is not
proven clean and healthy (docs/failures.md)."""

import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from gpuaas.contracts.certificates import CERTIFICATE_TYPE, SanitisationStatement
from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.contracts.http.flows import FlowKind, FlowState
from gpuaas.contracts.simulation import Point
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.certificates import service as certificates
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.flows.catalogue import FLOWS
from gpuaas.flows.story import Flow
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.signing import Purpose, SigningKeys
from gpuaas.kit import dsse
from tests.support.fleet import EVERYTHING
from tests.support.ground import Ground, Machine, ground_of


@pytest.fixture(scope="module")
async def ground(db: Database) -> AsyncIterator[Ground]:
    async with ground_of(db, machines=0) as made:
        yield made


@pytest.fixture
async def machine(ground: Ground) -> Machine:
    return await ground.anew()


def hasty(seconds: float) -> dict[FlowKind, Flow]:
    """The flows, with no patience."""
    wait = timedelta(seconds=seconds)
    return {
        kind: replace(flow, steps=tuple(replace(step, deadline=wait, undo_deadline=wait) for step in flow.steps))
        for kind, flow in FLOWS.items()
    }


async def held(ground: Ground, allocation_id: UUID) -> list[Any]:
    async with ground.db.read(EVERYTHING) as tx:
        return await tx.rows(
            "SELECT h.serial, h.state, EXISTS (SELECT FROM slot_quarantines q WHERE q.serial = h.serial "
            "AND q.ended_at IS NULL) AS sick, s.gpu_index FROM slot_holds h JOIN slots s ON s.id = h.slot_id "
            "WHERE h.allocation_id = $1 ORDER BY s.gpu_index",
            allocation_id,
        )


async def test_a_failed_health_proof_fails_the_allocation_and_the_sick_gpu_is_quarantined(
    ground: Ground, machine: Machine
) -> None:
    made = await ground.reserve(2)
    first, second = await held(ground, made.id)
    machine.host.fail_health(first["gpu_index"])
    await ground.run()
    ended = await ground.read(made.id)
    assert (ended.state, ended.failure_code, ended.active_at) == (
        AllocationState.FAILED,
        "health_proof_failed",
        None,
    ), "nothing was active, so nothing is charged"
    after = {row["serial"]: row for row in await held(ground, made.id)}
    assert (after[first["serial"]]["state"], after[first["serial"]]["sick"]) == ("quarantined", True)
    assert (after[second["serial"]]["state"], after[second["serial"]]["sick"]) == ("clean", False)
    assert await ground.leftovers() == []


async def test_a_refused_reset_ends_the_release_with_that_gpu_in_quarantine(ground: Ground, machine: Machine) -> None:
    made = await ground.active(2)
    first, second = await held(ground, made.id)
    machine.host.refuse_reset(first["gpu_index"])
    await ground.release(made.id)
    await ground.run()
    assert (await ground.read(made.id)).state is AllocationState.RELEASED
    after = {row["serial"]: (row["state"], row["sick"]) for row in await held(ground, made.id)}
    assert after == {first["serial"]: ("quarantined", True), second["serial"]: ("clean", False)}
    assert await ground.leftovers() == []


async def test_a_gpu_lost_while_active_is_not_given_to_the_next_tenant(ground: Ground, machine: Machine) -> None:
    made = await ground.active(2)
    first, second = await held(ground, made.id)
    machine.host.lose_gpu(first["gpu_index"], 79)
    await machine.fault(first["serial"])
    await ground.settle()
    assert (await ground.read(made.id)).state is AllocationState.ACTIVE
    assert [row["sick"] for row in await held(ground, made.id)] == [True, False]
    await ground.release(made.id)
    await ground.run()
    assert (await ground.read(made.id)).state is AllocationState.RELEASED
    after = {row["serial"]: (row["state"], row["sick"]) for row in await held(ground, made.id)}
    assert after == {first["serial"]: ("quarantined", True), second["serial"]: ("clean", False)}
    assert await ground.leftovers() == []


async def test_a_partition_during_release_ends_in_release_failed_and_heals_when_the_node_is_back(
    ground: Ground, machine: Machine
) -> None:
    made = await ground.active(2)
    machine.silent = True
    await ground.release(made.id)
    await ground.run(ground.executor(hasty(0.3)))
    failed = await ground.read(made.id)
    assert failed.state is AllocationState.RELEASE_FAILED
    assert [(row["state"], row["sick"]) for row in await held(ground, made.id)] == [("held", True)] * 2
    assert len(await machine.host.accounts()) == 1, "it is still there, which is why it is not released"

    machine.silent = False
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        await allocations.release_again(tx, made.id)
    await ground.run()
    assert (await ground.read(made.id)).state is AllocationState.RELEASED
    assert await machine.host.accounts() == []
    # Clean, and proven to work under load after the quarantine.
    assert [(row["state"], row["sick"]) for row in await held(ground, made.id)] == [("clean", False)] * 2
    assert await ground.leftovers() == []


async def test_a_node_that_is_silent_while_it_is_made_ready_fails_the_allocation(
    ground: Ground, machine: Machine
) -> None:
    machine.silent = True
    made = await ground.reserve(1)
    await ground.run(ground.executor(hasty(0.3)))
    ended = await ground.read(made.id)
    assert (ended.state, ended.failure_code) == (AllocationState.FAILED, "deadline")
    assert (await ground.flow(made.id, FlowKind.ALLOCATION_PROVISION)).state in (
        FlowState.UNDONE,
        FlowState.SURRENDERED,
    )
    assert [found for found in await ground.leftovers() if found.startswith("invariant")] == []


async def test_a_task_that_times_out_is_asked_again(ground: Ground, machine: Machine) -> None:
    """The agent ends a hanging task at its deadline and says so."""
    made = await ground.reserve(1)
    executor = ground.executor()
    await executor.run_due()
    await ground.fleet.sign()
    [order] = await machine.claim()
    await machine.report(order.task_id, "timed_out", code="deadline", reason="not done within 30 s")
    await ground.run(executor)
    assert (await ground.read(made.id)).state is AllocationState.ACTIVE
    assert await ground.leftovers() == []


async def test_an_agent_that_crashes_in_the_middle_of_making_the_account_makes_one(
    ground: Ground, machine: Machine
) -> None:
    class Crash(Exception):
        pass

    async def crash() -> None:
        raise Crash

    machine.host.tap.crash = crash
    made = await ground.reserve(1)
    executor = ground.executor()
    crashed = 0
    for _ in range(20):
        await executor.run_due()
        await ground.fleet.sign()
        if "user.provision" not in machine.done and machine.leases.all:
            machine.host.tap.crash_at = Point.DURING
        try:
            await machine.labour()
        except Crash:
            crashed += 1
    await ground.run(executor)
    assert crashed == 1
    assert (await ground.read(made.id)).state is AllocationState.ACTIVE
    assert len(await machine.host.accounts()) == 1
    assert await ground.leftovers() == []


async def test_two_failed_provisions_in_a_row_quarantine_the_node(ground: Ground, machine: Machine) -> None:
    for _ in range(2):
        made = await ground.reserve(1)
        await refuse_accounts(ground, machine)
        assert (await ground.read(made.id)).state is AllocationState.FAILED
    assert (await ground.fleet.node(machine))["quarantine"]["reason"] == "provisions_failed"


async def refuse_accounts(ground: Ground, machine: Machine) -> None:
    """Run everything, with a host that makes no account."""
    executor = ground.executor()
    for _ in range(60):
        acted = await executor.run_due()
        await ground.fleet.sign()
        orders = await machine.claim()
        for order in orders:
            if order.type == "user.provision":
                await machine.report(order.task_id, "failed", code="no_space", reason="the disk is full")
            else:
                await machine.obey(order)
        await ground.fleet.react()
        if not acted and not orders and not await ground._due():
            return


async def test_forced_release_is_counted_backed_off_and_ends_with_the_node_in_quarantine(
    ground: Ground, machine: Machine
) -> None:
    made = await ground.active(1)
    machine.silent = True
    await ground.release(made.id)
    await ground.run(ground.executor(hasty(0.2)))
    policy = ground.fleet.city.policy
    allowed = policy.number("allocations.force_release_attempts")
    for attempt in range(1, allowed + 1):
        async with ground.db.transaction(EVERYTHING, "test") as tx:
            await allocations.allocation_force_release(tx, policy, made.id, by="root", reason="the node is gone")
        await ground.run(ground.executor(hasty(0.2)))
        found = await ground.read(made.id)
        assert (found.state, found.force_attempts) == (AllocationState.RELEASE_FAILED, attempt)
        async with ground.db.transaction(EVERYTHING, "test") as tx:
            with pytest.raises(Exception, match="Try again after" if attempt < allowed else "as often as allowed"):
                await allocations.allocation_force_release(tx, policy, made.id, by="root", reason="at once again")
        async with ground.db.transaction(EVERYTHING, "test") as tx:
            await tx.run("UPDATE allocations SET force_after = now() - interval '1 second' WHERE id = $1", made.id)
    assert (await ground.fleet.node(machine))["quarantine"]["reason"] == "release_abandoned"
    assert len(await ground.fleet.events("allocation.abandoned", made.id)) == 1


async def test_a_release_ends_with_a_certificate_that_says_how_it_was_cleaned(ground: Ground, machine: Machine) -> None:
    made = await ground.active(2)
    await ground.release(made.id)
    await ground.run()
    async with ground.db.read(EVERYTHING) as tx:
        [certificate] = await certificates.of_allocation(tx, made.id)
        keys = ground.parts.get(SigningKeys)
        [public] = await keys.public_keys(tx, Purpose.SANITISATION)
    envelope = msgspec.json.decode(certificate.envelope, type=dsse.Envelope)
    payload = base64.b64decode(envelope.payload)
    signature = base64.b64decode(envelope.signatures[0].sig)
    assert public.verifies(dsse.pre_authentication(CERTIFICATE_TYPE, payload), signature)
    statement = msgspec.json.decode(payload, type=SanitisationStatement)
    assert sorted(gpu.serial for gpu in statement.gpus if gpu.clean) == sorted(
        row["serial"] for row in await held(ground, made.id)
    )
    assert {cleaning.method for cleaning in statement.cleanings} >= {"memory_cleared", "reset"}


async def test_cancelled_while_it_is_made_ready_it_leaves_nothing(ground: Ground, machine: Machine) -> None:
    made = await ground.reserve(1)
    executor = ground.executor()
    await executor.run_due()
    await ground.fleet.sign()
    await machine.labour()
    await ground.release(made.id)
    await ground.run(executor)
    ended = await ground.read(made.id)
    assert (ended.state, ended.failure_code) == (AllocationState.FAILED, "cancelled")
    assert await ground.leftovers() == []
    async with ground.db.read(EVERYTHING) as tx:
        open_tasks = "SELECT count(*) FROM tasks WHERE node_id = $1 AND ended_at IS NULL"
        assert await tx.value(open_tasks, machine.id) == 0


async def test_a_node_that_is_not_sold_any_more_at_that_moment_fails_it_and_its_gpus_are_free(
    ground: Ground, machine: Machine
) -> None:
    made = await ground.reserve(2)
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        assert await registry.node_quarantine(tx, machine.id, "test", "just now")
    await ground.run()
    ended = await ground.read(made.id)
    assert (ended.state, ended.failure_code) == (AllocationState.FAILED, "node_not_ready")
    assert [(row["state"], row["sick"]) for row in await held(ground, made.id)] == [("unused", False)] * 2
    assert await machine.host.accounts() == []
    assert await ground.leftovers() == []


async def test_a_gpu_that_fails_its_check_after_the_cleaning_is_in_quarantine_and_the_others_are_free(
    ground: Ground, machine: Machine
) -> None:
    made = await ground.active(2)
    first, second = await held(ground, made.id)
    machine.host.fail_health(first["gpu_index"])
    await ground.release(made.id)
    await ground.run()
    assert (await ground.read(made.id)).state is AllocationState.RELEASED
    after = {row["serial"]: (row["state"], row["sick"]) for row in await held(ground, made.id)}
    assert after == {first["serial"]: ("quarantined", True), second["serial"]: ("clean", False)}
    assert await ground.leftovers() == []
