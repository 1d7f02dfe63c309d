"""Leases: who speaks is online, who is silent is unknown and then lost, who comes back is looked at again."""

import asyncio
from typing import Any

import msgspec
import pytest

from gpuaas.contracts.http.agent import Heartbeat
from gpuaas.domains.nodes.liveness import handlers, service
from gpuaas.domains.nodes.liveness.service import Heartbeats
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.support.fleet import EVERYTHING, Agent, Fleet
from tests.support.people import found, refusal


async def silent_for(superuser: Any, agent: Agent, seconds: int) -> None:
    await superuser.execute(
        "UPDATE node_heartbeats SET seen_at = now() - make_interval(secs => $2) WHERE node_id = $1", agent.id, seconds
    )


async def test_a_silent_node_is_unknown_then_lost_and_recovers_by_itself(fleet: Fleet, superuser: Any):
    agent = await fleet.ready()
    await silent_for(superuser, agent, 16)
    node = await fleet.node(agent)
    assert node["liveness"] == "unknown", "its lease is over, whether or not a sweep has come by"
    assert node["sellable"] is False
    assert not any(slot["sellable"] for slot in (await fleet.slots(agent)).values())
    for _ in range(3):
        await handlers.silence_notice(fleet.city.parts)
    assert len(await fleet.events("node.unknown", agent.id)) == 1
    assert await fleet.events("node.lost", agent.id) == []

    await silent_for(superuser, agent, 301)
    for _ in range(3):
        await handlers.silence_notice(fleet.city.parts)
    assert (await fleet.node(agent))["liveness"] == "lost"
    assert len(await fleet.events("node.lost", agent.id)) == 1

    found(await agent.heartbeat(), 200)
    found(await agent.heartbeat(), 200)
    assert (await fleet.node(agent))["liveness"] == "online"
    recovered = await fleet.events("node.recovered", agent.id)
    assert [(event["from_liveness"], event["rebooted"]) for event in recovered] == [("lost", False)]
    await fleet.react()
    await fleet.sign()
    orders = await agent.work()
    assert [order.type for order in orders] == ["node.inspect", "node.health"], "it is looked at again"
    await fleet.react()
    assert (await fleet.node(agent))["sellable"] is True


async def test_a_reboot_between_two_heartbeats_is_noticed(fleet: Fleet):
    agent = await fleet.ready()
    agent.boot_id = "boot-2"
    found(await agent.heartbeat(), 200)
    found(await agent.heartbeat(), 200)
    [event] = await fleet.events("node.recovered", agent.id)
    assert (event["from_liveness"], event["rebooted"]) == ("online", True)


async def test_two_replicas_that_hear_a_node_at_once_tell_once_that_it_is_back(fleet: Fleet, superuser: Any):
    agent = await fleet.ready()
    await silent_for(superuser, agent, 20)
    await handlers.silence_notice(fleet.city.parts)
    other = Heartbeats(fleet.db, fleet.city.policy)
    here = fleet.city.parts.get(Heartbeats)
    beat = Heartbeat(boot_id="boot-1", agent_version="1", next_sequence=1, sent_at=clock.now(), generation=1)
    await asyncio.gather(*(replica.beat(agent.id, beat) for replica in (here, other) for _ in range(3)))
    assert len(await fleet.events("node.recovered", agent.id)) == 1


async def test_a_heartbeat_hears_what_is_wanted_and_says_what_was_taken_over(fleet: Fleet):
    agent = await fleet.ready()
    before = found(await agent.heartbeat(), 200)
    assert (before["cordoned"], before["drained"], before["heartbeat_seconds"]) == (False, False, 5.0)
    await fleet.order(f"/nodes/{agent.id}/cordon", {"reason": "a fan is loud"}, 200)
    await fleet.order(f"/nodes/{agent.id}/drain", {"reason": "a fan is loud"}, 200)
    after = found(await agent.heartbeat(), 200)
    assert (after["cordoned"], after["drained"]) == (True, True)
    assert after["generation"] == before["generation"] + 2
    found(await agent.heartbeat(generation=after["generation"], accounts=["gabc"]), 200)
    node = await fleet.node(agent)
    assert (node["observed_generation"], node["generation"]) == (after["generation"], after["generation"])
    assert node["accounts"] == ["gabc"]
    assert node["why_not"] == ["the node is cordoned", "the node is drained"]


async def test_what_a_node_has_leased_is_known_from_its_last_heartbeat(fleet: Fleet, superuser: Any):
    agent, allocation_id = await fleet.ready(), str(new_id())
    for leases in ({allocation_id: ["S1", "S2"]}, {}):
        found(await agent.heartbeat(leases=leases), 200)
        noted = await superuser.fetchval("SELECT leases FROM node_heartbeats WHERE node_id = $1", agent.id)
        assert msgspec.json.decode(noted) == leases


async def test_many_heartbeats_are_few_statements(fleet: Fleet, monkeypatch: pytest.MonkeyPatch):
    agents = [await fleet.enrolled() for _ in range(40)]
    flushes: list[int] = []
    note = service.heartbeats_note

    async def counting(tx: Any, beats: Any) -> Any:
        flushes.append(len(beats))
        return await note(tx, beats)

    monkeypatch.setattr(service, "heartbeats_note", counting)
    answers = await asyncio.gather(*(agent.heartbeat() for agent in agents for _ in range(2)))
    assert {answer.status_code for answer in answers} == {200}
    assert sum(flushes) == 40
    assert len(flushes) <= 3


async def test_a_disabled_or_removed_node_is_not_listened_to(fleet: Fleet):
    agent = await fleet.ready()
    await fleet.order(f"/nodes/{agent.id}/disable", {"reason": "sold"}, 200)
    assert refusal(await agent.heartbeat()) == (404, "node_missing")
    assert refusal(await agent.say("/claim", {"next_sequence": 9, "wait_seconds": 0})) == (404, "node_missing")
    await fleet.order(f"/nodes/{agent.id}/enable", status=200)
    found(await agent.heartbeat(), 200)
    found(await fleet.city.ask(fleet.admin, "DELETE", f"/nodes/{agent.id}"), 200)
    assert refusal(await agent.heartbeat()) == (404, "node_missing")


async def test_a_heartbeat_while_the_database_refuses_is_told_so(fleet: Fleet, monkeypatch: pytest.MonkeyPatch):
    agent = await fleet.ready()

    async def away(tx: Any, beats: Any) -> Any:
        raise OSError("the database is away")

    with monkeypatch.context() as patched:
        patched.setattr(service, "heartbeats_note", away)
        assert refusal(await agent.heartbeat()) == (503, "dependency_unavailable")
    found(await agent.heartbeat(), 200)


async def test_heartbeats_stay_on_their_page(fleet: Fleet, superuser: Any):
    """Written again and again: nearly every update finds room beside the old row, and no index is touched."""
    agents = [await fleet.enrolled() for _ in range(5)]
    before = await superuser.fetchrow(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'node_heartbeats'"
    )
    for _ in range(8):
        await asyncio.gather(*(agent.heartbeat() for agent in agents))
    async with fleet.db.read(EVERYTHING) as tx:
        await tx.value("SELECT pg_stat_force_next_flush()")
    await asyncio.sleep(1.2)
    await superuser.execute("SELECT pg_stat_clear_snapshot()")
    after = await superuser.fetchrow(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'node_heartbeats'"
    )
    updated = after["n_tup_upd"] - before["n_tup_upd"]
    if updated:
        assert (after["n_tup_hot_upd"] - before["n_tup_hot_upd"]) / updated > 0.9
