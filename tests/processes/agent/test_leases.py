"""Leases on the host: the agent's own note of which GPUs are whose."""

from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from gpuaas.contracts.tasks.base import Outcome, Report
from gpuaas.contracts.tasks.catalogue import (
    Inspect,
    InspectResult,
    LeaseResult,
    SlotLease,
    SlotUnlease,
    UnleaseResult,
    UserProvision,
)
from gpuaas.kit.ids import new_id
from gpuaas.processes.agent.errors import AgentError
from gpuaas.processes.agent.leases import FILE
from tests.processes.agent.conftest import AgentHere
from tests.support.agent_plane import Plane, until

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio"


async def gpus_of(plane: Plane, here: AgentHere) -> list[str]:
    report = await plane.result(here.node_id, plane.give(here.node_id, Inspect()))
    return [gpu.serial for gpu in msgspec.json.decode(report.result, type=InspectResult).topology.gpus]


async def lease(plane: Plane, here: AgentHere, allocation_id: UUID, serials: list[str]) -> Report:
    task_id = plane.give(here.node_id, SlotLease(allocation_id=allocation_id, serials=serials))
    return await plane.result(here.node_id, task_id)


async def unlease(plane: Plane, here: AgentHere, allocation_id: UUID) -> UnleaseResult:
    report = await plane.result(here.node_id, plane.give(here.node_id, SlotUnlease(allocation_id=allocation_id)))
    assert report.outcome is Outcome.DONE, report.reason
    return msgspec.json.decode(report.result, type=UnleaseResult)


async def test_a_gpu_is_leased_to_one_allocation_and_to_it_as_often_as_asked(plane: Plane, here: AgentHere) -> None:
    gpus, mine, other = await gpus_of(plane, here), new_id(), new_id()

    first = await lease(plane, here, mine, gpus[:2])
    again = await lease(plane, here, mine, gpus[:2])
    taken = await lease(plane, here, other, gpus[1:3])
    beside = await lease(plane, here, other, gpus[2:])

    assert msgspec.json.decode(first.result, type=LeaseResult).serials == sorted(gpus[:2])
    assert first.result == again.result
    assert (taken.outcome, taken.code) == (Outcome.FAILED, "slot_leased")
    assert "another allocation" in taken.reason
    assert str(mine) not in taken.reason, "whose it is, is nobody else's business"
    assert beside.outcome is Outcome.DONE


async def test_a_lease_that_was_refused_for_one_gpu_is_of_none(plane: Plane, here: AgentHere) -> None:
    gpus, mine, other = await gpus_of(plane, here), new_id(), new_id()
    await lease(plane, here, mine, gpus[:1])
    await lease(plane, here, other, gpus[:2])
    assert (await lease(plane, here, new_id(), gpus[1:2])).outcome is Outcome.DONE


async def test_a_gpu_that_is_not_there_is_not_leased(plane: Plane, here: AgentHere) -> None:
    report = await lease(plane, here, new_id(), ["NO-SUCH-GPU"])
    assert (report.outcome, report.code) == (Outcome.FAILED, "gpu_unknown")
    assert not (here.state.path / FILE).exists()


async def test_a_lease_ends_once_and_its_gpus_are_anybodys(plane: Plane, here: AgentHere) -> None:
    gpus, mine = await gpus_of(plane, here), new_id()
    await lease(plane, here, mine, gpus[:2])
    assert (await unlease(plane, here, mine)).existed
    assert not (await unlease(plane, here, mine)).existed
    assert (await lease(plane, here, new_id(), gpus[:2])).outcome is Outcome.DONE


async def test_an_account_gets_no_gpu_that_is_leased_to_another_allocation(plane: Plane, here: AgentHere) -> None:
    gpus, mine = await gpus_of(plane, here), new_id()
    await lease(plane, here, mine, gpus[:2])
    account = UserProvision(login="gada", ssh_keys=[KEY], gpus=gpus[:1])

    for subject in (new_id(), None):
        report = await plane.result(here.node_id, plane.give(here.node_id, account, subject_id=subject))
        assert (report.outcome, report.code) == (Outcome.FAILED, "slot_leased")
    assert await here.host.accounts() == []

    report = await plane.result(here.node_id, plane.give(here.node_id, account, subject_id=mine))
    assert report.outcome is Outcome.DONE
    assert await here.host.accounts() == ["gada"]


async def test_leases_are_told_with_every_heartbeat_and_survive_a_restart(plane: Plane, here: AgentHere) -> None:
    gpus, mine, beats = await gpus_of(plane, here), new_id(), plane.nodes[here.node_id].beats
    await lease(plane, here, mine, gpus[:2])
    await here.stop()
    assert (here.state.path / FILE).stat().st_mode & 0o777 == 0o600

    before = len(beats)
    here.start()
    await until(lambda: len(beats) > before, 20, "a heartbeat")
    assert beats[-1].leases == {mine: sorted(gpus[:2])}
    assert (await lease(plane, here, new_id(), gpus[:1])).code == "slot_leased"


async def test_a_damaged_note_is_refused_not_guessed_at(plane: Plane, tmp_path: Path) -> None:
    here = AgentHere(plane, tmp_path / "damaged")
    here.state.write(FILE, b'{"generation": 1, "leases": ')
    with pytest.raises(AgentError, match="damaged"):
        here.start()
