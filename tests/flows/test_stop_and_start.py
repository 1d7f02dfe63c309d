"""An allocation is stopped and started again, on simulated machines: nobody can log in, nothing runs, all is kept."""

from collections.abc import AsyncIterator

import pytest

from gpuaas.contracts.http.allocations import AllocationState, StopReason
from gpuaas.contracts.http.flows import FlowKind, FlowState
from gpuaas.domains.allocations.models import login_of
from gpuaas.infra.hosts.simulated import accounts as shells
from gpuaas.infra.postgres.database import Database
from gpuaas.ports.host import HostFailed
from tests.every.allocation_stories import hasty
from tests.support.fleet import EVERYTHING
from tests.support.ground import Ground, ground_of


@pytest.fixture(scope="module")
async def grounds(db: Database) -> AsyncIterator[Ground]:
    async with ground_of(db, machines=0) as made:
        yield made


@pytest.fixture
async def ground(grounds: Ground) -> Ground:
    await grounds.anew()
    return grounds


async def test_what_is_stopped_is_closed_and_kept_and_started_it_is_as_before(ground: Ground) -> None:
    allocation = await ground.active(2)
    machine, login = ground.machines[0], login_of(allocation.id)
    home = machine.home(login)
    (home / "kept").write_text("mine")
    machine.host.leave_running(login, 600)
    await ground.stop(allocation.id)
    await ground.run()

    stopped = await ground.read(allocation.id)
    assert (stopped.state, stopped.stop_reason, stopped.failure_code) == (AllocationState.STOPPED, "balance", "")
    assert shells.processes_of(home) == []
    assert (home / ".ssh" / "authorized_keys").read_text() == ""
    with pytest.raises(HostFailed, match="cannot log in"):
        machine.host.leave_running(login, 1)
    assert set(machine.leases.all) == {allocation.id}
    assert await ground.leftovers() == []

    await ground.start(allocation.id)
    await ground.run()
    started = await ground.read(allocation.id)
    assert (started.state, started.stop_reason, started.due_at) == (AllocationState.ACTIVE, "", None)
    assert (started.active_at, started.expires_at) == (allocation.active_at, allocation.expires_at)
    assert (home / "kept").read_text() == "mine"
    assert (home / ".ssh" / "authorized_keys").read_text().splitlines() == allocation.ssh_keys
    machine.host.leave_running(login, 600)
    assert await ground.leftovers() == []


async def test_a_release_while_it_stops_comes_first(ground: Ground) -> None:
    allocation = await ground.active()
    await ground.stop(allocation.id)
    await ground.executor().run_due()  # its node is asked, and has not answered yet
    await ground.release(allocation.id)
    await ground.run()
    assert (await ground.read(allocation.id)).state is AllocationState.RELEASED
    assert (await ground.flow(allocation.id, FlowKind.ALLOCATION_STOP)).state is FlowState.DONE
    assert await ground.machines[0].host.accounts() == []
    assert await ground.leftovers() == []


async def test_a_release_while_it_starts_comes_first_and_leaves_no_account(ground: Ground) -> None:
    allocation = await ground.active()
    await ground.stop(allocation.id)
    await ground.run()
    await ground.start(allocation.id)
    await ground.executor().run_due()
    await ground.release(allocation.id)
    await ground.run()
    assert (await ground.read(allocation.id)).state is AllocationState.RELEASED
    assert (await ground.flow(allocation.id, FlowKind.ALLOCATION_START)).state is FlowState.DONE
    assert await ground.machines[0].host.accounts() == []
    assert await ground.leftovers() == []


async def test_a_stopped_allocation_is_released_clean_and_with_a_certificate(ground: Ground) -> None:
    allocation = await ground.active(2)
    await ground.stop(allocation.id, StopReason.USER)
    await ground.run()
    await ground.release(allocation.id)
    await ground.run()
    assert (await ground.read(allocation.id)).state is AllocationState.RELEASED
    async with ground.db.read(EVERYTHING) as tx:
        certified = await tx.value(
            "SELECT count(*) FROM sanitisation_certificates WHERE allocation_id = $1", allocation.id
        )
    assert certified == 1
    assert await ground.leftovers() == []


async def test_a_node_that_does_not_answer_is_asked_again_to_close_the_login(ground: Ground) -> None:
    allocation, machine = await ground.active(), ground.machines[0]
    machine.silent = True
    await ground.stop(allocation.id)
    await ground.run(ground.executor(hasty()))
    told = await ground.read(allocation.id)
    assert (told.state, told.failure_code) == (AllocationState.STOPPED, "stop_failed")
    assert told.stop_after is not None
    assert await ground.leftovers() == []


async def test_a_start_whose_gpus_are_sick_closes_the_login_again(ground: Ground) -> None:
    allocation, machine = await ground.active(), ground.machines[0]
    await ground.stop(allocation.id)
    await ground.run()
    for index in range(8):
        machine.host.fail_health(index)
    await ground.start(allocation.id)
    await ground.run()
    told = await ground.read(allocation.id)
    assert (told.state, told.failure_code) == (AllocationState.STOPPED, "start_failed")
    with pytest.raises(HostFailed, match="cannot log in"):
        machine.host.leave_running(login_of(allocation.id), 1)
    assert told.due_at == told.expires_at


async def test_a_node_lost_while_it_starts_leaves_it_stopped_and_to_be_closed_again(ground: Ground) -> None:
    allocation, machine = await ground.active(), ground.machines[0]
    await ground.stop(allocation.id)
    await ground.run()
    machine.silent = True
    await ground.start(allocation.id)
    await ground.run(ground.executor(hasty()))
    told = await ground.read(allocation.id)
    assert (told.state, told.failure_code) == (AllocationState.STOPPED, "stop_failed")
    assert await ground.leftovers() == []
