"""A control plane that is not to be believed: the agent follows nothing it should not, says why, and goes on."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from gpuaas.contracts.tasks.base import Outcome
from gpuaas.contracts.tasks.catalogue import Drain, Inspect, UserProvision
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from gpuaas.processes.agent.errors import AgentError
from tests.processes.agent.conftest import AgentHere
from tests.support.agent_plane import Authority, Plane, TaskKey, until

ACCOUNT = UserProvision(login="gmallory", ssh_keys=[], gpus=[])
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"type": "node.explode"}, "unknown_type"),
        ({"version": 99}, "unknown_version"),
        ({"issued_at": clock.now() - HOUR, "expires_at": clock.now() - HOUR / 2}, "bad_life"),
        ({"issued_at": clock.now() - HOUR, "expires_at": clock.now() - HOUR * 0.9}, "expired"),
        ({"arguments": msgspec.Raw(b'{"login":"root","ssh_keys":[],"gpus":[]}')}, "bad_arguments"),
        ({"node_id": new_id()}, "other_node"),
    ],
)
async def test_an_order_that_is_not_to_be_followed_is_reported_and_the_next_is_done(
    plane: Plane, here: AgentHere, changes: dict[str, Any], code: str
) -> None:
    refused = plane.give(here.node_id, ACCOUNT, **changes)
    report = await plane.result(here.node_id, refused)
    assert (report.outcome, report.code) == (Outcome.REFUSED, code)
    done = await plane.result(here.node_id, plane.give(here.node_id, Inspect()))
    assert done.outcome is Outcome.DONE
    assert await here.host.accounts() == []


async def test_a_forged_order_is_refused_without_using_a_number(plane: Plane, here: AgentHere) -> None:
    forged = plane.order(here.node_id, ACCOUNT, 1)
    plane.give_envelope(here.node_id, 1, plane.seal(forged, TaskKey("task-1")))
    report = await plane.result(here.node_id, forged.task_id)
    assert (report.outcome, report.code) == (Outcome.REFUSED, "bad_signature")
    plane.nodes[here.node_id].envelopes.clear()
    true = await plane.result(here.node_id, plane.give(here.node_id, ACCOUNT))
    assert true.outcome is Outcome.DONE
    assert len(plane.nodes[here.node_id].results[forged.task_id]) == 1


async def test_a_key_the_server_only_claims_is_not_believed(plane: Plane, here: AgentHere) -> None:
    mallory = TaskKey("mallory")
    plane.trust = msgspec.structs.replace(
        plane.trust, task_keys=[mallory.view], key_statements=[mallory.names(mallory)]
    )
    forged = plane.order(here.node_id, ACCOUNT, 1)
    plane.give_envelope(here.node_id, 1, plane.seal(forged, mallory))
    assert (await plane.result(here.node_id, forged.task_id)).code == "bad_signature"
    assert await here.host.accounts() == []


async def test_a_key_that_follows_by_statement_is_believed_at_once(plane: Plane, here: AgentHere) -> None:
    await until(lambda: plane.nodes[here.node_id].beats, 10, "a heartbeat")
    newer, older = TaskKey("task-2"), plane.task_key
    plane.trust = msgspec.structs.replace(
        plane.trust, task_keys=[older.view, newer.view], key_statements=[older.names(newer)]
    )
    plane.task_key = newer
    assert (await plane.result(here.node_id, plane.give(here.node_id, ACCOUNT))).outcome is Outcome.DONE


async def test_a_replayed_order_is_done_once_also_by_an_agent_started_again(plane: Plane, here: AgentHere) -> None:
    plane.resend = True
    first = plane.give(here.node_id, Drain())
    await plane.result(here.node_id, first)
    await plane.result(here.node_id, plane.give(here.node_id, Drain(drained=False)))
    await here.stop()
    here.start()
    await plane.result(here.node_id, plane.give(here.node_id, Inspect()))
    assert [len(reports) for reports in plane.nodes[here.node_id].results.values()] == [1, 1, 1]
    assert here.host.status("").faults == []


async def test_a_used_id_under_a_new_number_is_not_done_again(plane: Plane, here: AgentHere) -> None:
    first = plane.give(here.node_id, Drain())
    await plane.result(here.node_id, first)
    plane.give(here.node_id, Drain(drained=False), task_id=first)
    await plane.result(here.node_id, plane.give(here.node_id, Inspect()))
    assert len(plane.nodes[here.node_id].results[first]) == 1


async def test_a_server_of_another_authority_hears_nothing(plane: Plane, here: AgentHere) -> None:
    await plane.stop()
    await here.stop()
    plane.authority = Authority("root")
    beats = len(plane.nodes[here.node_id].beats)
    await plane.start()
    here.start()
    await asyncio.sleep(2)
    assert here.alive
    assert len(plane.nodes[here.node_id].beats) == beats


async def test_rolled_back_memory_is_seen_by_the_server_and_lost_memory_is_refused(
    plane: Plane, here: AgentHere
) -> None:
    log = here.state.path / "tasks.jsonl"
    before = log.read_bytes()
    await plane.result(here.node_id, plane.give(here.node_id, Inspect()))
    await until(lambda: plane.nodes[here.node_id].beats[-1].next_sequence == 2, 10, "a heartbeat")
    await here.stop()
    log.write_bytes(before)
    here.start()
    await until(lambda: plane.nodes[here.node_id].beats[-1].next_sequence == 1, 10, "a heartbeat")
    await here.stop()
    log.unlink()
    with pytest.raises(AgentError, match="enrol this node again"):
        here.start()
