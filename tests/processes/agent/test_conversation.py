"""The talk between an agent and its control plane, when all is well and when it is not."""

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from gpuaas.contracts.tasks.base import Outcome
from gpuaas.contracts.tasks.catalogue import (
    Drain,
    HealthCheck,
    HealthResult,
    Inspect,
    InspectResult,
    RevokeResult,
    Sanitise,
    SanitiseResult,
    UserProvision,
    UserRevoke,
)
from gpuaas.kit import clock
from gpuaas.processes.agent import conversation
from tests.processes.agent.conftest import AgentHere
from tests.support.agent_plane import Plane, until


async def test_a_task_is_picked_up_at_once_and_its_steps_are_told_as_they_come(plane: Plane, here: AgentHere) -> None:
    await until(lambda: plane.nodes[here.node_id].claims, 10, "a claim")
    waits = []
    for _ in range(20):
        began = clock.monotonic()
        task_id = plane.give(here.node_id, HealthCheck())
        await plane.result(here.node_id, task_id)
        waits.append(clock.monotonic() - began)
        assert plane.nodes[here.node_id].phases[task_id][:2] == ["started", "checking"]
    assert sorted(waits)[15] < 0.25
    assert plane.connections <= 3


async def test_certificates_of_a_few_seconds_are_renewed_without_missing_a_task(
    plane: Plane, tmp_path_factory: pytest.TempPathFactory
) -> None:
    plane.life = timedelta(seconds=8)
    here = AgentHere(plane, tmp_path_factory.mktemp("short") / "state").start()
    try:
        serials = plane.nodes[here.node_id].serials
        tasks = 0
        while len(serials) < 5:
            assert (await plane.result(here.node_id, plane.give(here.node_id, Inspect()), 5)).outcome is Outcome.DONE
            tasks += 1
            await asyncio.sleep(0.1)
        assert tasks > 20
        assert all(len(reports) == 1 for reports in plane.nodes[here.node_id].results.values())
    finally:
        await here.stop()


@pytest.mark.parametrize("hours", [-24, 13, 30], ids=["a day behind", "past half-life", "past the end"])
async def test_a_clock_that_is_hours_wrong_neither_renews_without_end_nor_never(
    plane: Plane, tmp_path_factory: pytest.TempPathFactory, hours: int
) -> None:
    here = AgentHere(plane, tmp_path_factory.mktemp("wrong") / "state")
    serials = plane.nodes[here.node_id].serials
    here.host.skew_clock(hours * 3600)
    here.start()
    try:
        await until(lambda: plane.nodes[here.node_id].beats, 10, "a heartbeat")
        due = 1 if hours < 0 else 2
        await until(lambda: len(serials) >= due, 20, "the renewal its clock calls for")
        await asyncio.sleep(2)
        assert len(serials) == due, "once"
        plane.life = timedelta(seconds=8)
        await here.stop()
        plane.certify_anew(here.state)
        here.start()
        count = len(serials)
        await until(lambda: len(serials) >= count + 2, 20, "renewals of a certificate of seconds")
    finally:
        await here.stop()


async def test_a_control_plane_that_was_away_gets_what_was_kept(plane: Plane, here: AgentHere) -> None:
    node = plane.nodes[here.node_id]
    await until(lambda: node.claims, 10, "a claim")
    here.host.tap.hang = True
    task_id = plane.give(here.node_id, HealthCheck(), deadline_seconds=2)
    await until(lambda: node.phases[task_id], 10, "its start")
    await plane.stop()
    await asyncio.sleep(3)
    await plane.start()
    report = await plane.result(here.node_id, task_id, 30)
    assert (report.outcome, report.code) == (Outcome.TIMED_OUT, "deadline")
    assert here.alive


async def test_a_result_is_kept_over_a_restart_until_it_is_accepted(plane: Plane, here: AgentHere) -> None:
    node = plane.nodes[here.node_id]
    await until(lambda: node.claims, 10, "a claim")
    plane.refuse_results_with = 503
    task_id = plane.give(here.node_id, Drain())
    await until(lambda: task_id.hex in here.state.path.joinpath("tasks.jsonl").read_text().replace("-", ""), 10, "it")
    await until(lambda: task_id in plane.refused_results, 10, "a try")
    await here.stop()
    here.start()
    await asyncio.sleep(0.5)
    plane.refuse_results_with = 0
    assert (await plane.result(here.node_id, task_id)).outcome is Outcome.DONE
    await asyncio.sleep(0.3)
    assert len(node.results[task_id]) == 1


async def test_a_cancelled_task_ends_as_cancelled(plane: Plane, here: AgentHere) -> None:
    node = plane.nodes[here.node_id]
    account = UserProvision(login="gada", ssh_keys=[], gpus=[])
    await plane.result(here.node_id, plane.give(here.node_id, account))
    waiting = plane.give(here.node_id, Drain(until_empty=True))
    await until(lambda: "waiting" in node.phases[waiting], 10, "its wait")
    node.cancelled.append(waiting)
    node.woken.set()
    assert (await plane.result(here.node_id, waiting)).outcome is Outcome.CANCELLED


async def test_a_drain_ends_when_the_last_account_has_left(plane: Plane, here: AgentHere) -> None:
    account = UserProvision(login="gada", ssh_keys=[], gpus=[])
    await plane.result(here.node_id, plane.give(here.node_id, account))
    here.host.leave_running("gada", 60)
    waiting = plane.give(here.node_id, Drain(until_empty=True))
    await until(lambda: "waiting" in plane.nodes[here.node_id].phases[waiting], 10, "its wait")
    revoked = await plane.result(here.node_id, plane.give(here.node_id, UserRevoke(login="gada")))
    assert msgspec.json.decode(revoked.result, type=RevokeResult).ended_processes == 1
    assert (await plane.result(here.node_id, waiting)).outcome is Outcome.DONE


async def test_a_lost_gpu_is_told_within_a_second_and_its_siblings_stay(plane: Plane, here: AgentHere) -> None:
    node = plane.nodes[here.node_id]
    await until(lambda: node.claims, 10, "a claim")
    here.host.lose_gpu(2, 79)
    await until(lambda: node.faults, 1.5, "the fault")
    await asyncio.sleep(1)
    assert [fault.code for fault in node.faults] == ["XID 79"]
    health = await plane.result(here.node_id, plane.give(here.node_id, HealthCheck()))
    found = msgspec.json.decode(health.result, type=HealthResult).health
    assert [gpu.healthy for gpu in found.gpus] == [True, True, False, True]
    inspected = await plane.result(here.node_id, plane.give(here.node_id, Inspect()))
    topology = msgspec.json.decode(inspected.result, type=InspectResult).topology
    assert [gpu.index for gpu in topology.gpus] == [0, 1, 3]


async def test_a_reset_that_is_refused_is_not_clean(plane: Plane, here: AgentHere) -> None:
    serials = [gpu.serial for gpu in (await here.host.inspect()).gpus]
    here.host.refuse_reset(1)
    report = await plane.result(here.node_id, plane.give(here.node_id, Sanitise(serials=serials, reimage=True)))
    cleanings = msgspec.json.decode(report.result, type=SanitiseResult).cleanings
    assert {cleaning.target for cleaning in cleanings if not cleaning.clean} == {serials[1]}
    assert all(cleaning.evidence for cleaning in cleanings)


async def test_a_dropped_network_is_silence_and_then_a_return(plane: Plane, here: AgentHere) -> None:
    node = plane.nodes[here.node_id]
    await until(lambda: node.beats, 10, "a heartbeat")
    here.host.tap.drop_network(2.0)
    await asyncio.sleep(0.2)
    beats = len(node.beats)
    await asyncio.sleep(1.5)
    assert len(node.beats) == beats
    await until(lambda: len(node.beats) > beats, 15, "its return")


async def test_a_wrong_clock_is_shown_and_its_tasks_still_run(plane: Plane, here: AgentHere) -> None:
    for seconds in (-240, 240):
        here.host.skew_clock(seconds)
        await plane.result(here.node_id, plane.give(here.node_id, Inspect()))
        node = plane.nodes[here.node_id]
        beats = len(node.beats)
        await until(lambda node=node, beats=beats: len(node.beats) > beats, 10, "a heartbeat")
        assert abs((node.beats[-1].sent_at - clock.now()).total_seconds() - seconds) < 10


async def test_what_is_desired_is_taken_over_and_its_generation_told(plane: Plane, here: AgentHere) -> None:
    node = plane.nodes[here.node_id]
    node.desired = msgspec.structs.replace(node.desired, generation=7, drained=True)
    await until(lambda: node.beats and node.beats[-1].generation == 7, 10, "the generation")
    await here.stop()
    here.start()
    beats = len(node.beats)
    await until(lambda: len(node.beats) > beats, 10, "a heartbeat")
    assert node.beats[-1].generation == 7


async def test_what_was_measured_is_shipped_in_batches_that_count_once(
    plane: Plane, here: AgentHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "SAMPLE_SECONDS", 0.05)
    monkeypatch.setattr(conversation, "SHIP_SECONDS", 0.1)
    await here.stop()
    here.start()
    node = plane.nodes[here.node_id]
    await until(lambda: sum(node.batches.values()) > 30, 20, "samples")
    assert all(count <= 500 for count in node.batches.values())


async def test_an_unheard_answer_to_a_result_ends_its_story(plane: Plane, here: AgentHere) -> None:
    await until(lambda: plane.nodes[here.node_id].claims, 10, "a claim")
    plane.refuse_results_with = 409
    task_id = plane.give(here.node_id, Inspect())
    await until(lambda: task_id in plane.refused_results, 10, "the refusal")
    plane.refuse_results_with = 0
    done = await plane.result(here.node_id, plane.give(here.node_id, Inspect()))
    assert done.outcome is Outcome.DONE
    assert not plane.nodes[here.node_id].results[task_id]


async def test_an_agent_on_this_machine_tells_what_it_is_made_of(plane: Plane, tmp_path: Path) -> None:
    node_id = plane.make_node(tmp_path / "state")
    argv = [sys.executable, "-m", "gpuaas", "agent", "run", "--state-dir", str(tmp_path / "state"), "--driver", "linux"]
    agent = await asyncio.create_subprocess_exec(*argv, env=os.environ)
    try:
        report = await plane.result(node_id, plane.give(node_id, Inspect()))
        assert report.outcome is Outcome.DONE, report.reason
        topology = msgspec.json.decode(report.result, type=InspectResult).topology
        assert topology.cpu_count == os.cpu_count()
        assert topology.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        await until(lambda: bool(plane.nodes[node_id].beats), 30, "a heartbeat")
        assert plane.nodes[node_id].beats[-1].boot_id == topology.boot_id
    finally:
        agent.terminate()
        assert await agent.wait() == 0
