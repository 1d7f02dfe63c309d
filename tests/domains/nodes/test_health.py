"""Health: faults, checks, quarantine and the one way back; the circuit breaker; what operators see."""

import time
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from gpuaas.contracts.tasks.catalogue import UserProvision
from gpuaas.domains.nodes.health import handlers
from gpuaas.domains.nodes.metrics import handlers as metrics
from gpuaas.domains.nodes.tasks import handlers as task_handlers
from gpuaas.domains.nodes.tasks import service as tasks
from gpuaas.kit import clock
from gpuaas.kit.ids import floor_id, new_id
from tests.support.fleet import EVERYTHING, Agent, Fleet
from tests.support.people import found, refusal


async def do(fleet: Fleet, agent: Agent, **answers: Any) -> None:
    """Everything that is asked of the node, done, and what follows from it."""
    await fleet.sign()
    await agent.work(**answers)
    await fleet.react()


async def test_a_fault_quarantines_its_gpu_at_once_and_leaves_its_siblings(fleet: Fleet):
    agent = await fleet.ready()
    started = time.monotonic()
    found(await agent.fault(agent.serials[2], detail="fell off the bus"), 200)
    slots = await fleet.slots(agent)
    assert time.monotonic() - started < 5
    assert [slots[serial]["sellable"] for serial in agent.serials] == [True, True, False, True]
    lost = slots[agent.serials[2]]
    assert lost["why_not"] == ["the GPU is in quarantine: XID 79"]
    assert (lost["quarantine"]["detail"], lost["strikes"]) == ("fell off the bus", 1)
    assert (await fleet.node(agent))["sellable"] is True
    assert len(await fleet.events("slot.quarantined", lost["id"])) == 1


async def test_a_gpu_that_is_gone_at_the_next_inspection_leaves_its_siblings_too(fleet: Fleet):
    agent = await fleet.ready()
    found(await agent.fault(agent.serials[0]), 200)
    await fleet.order(f"/nodes/{agent.id}/inspect")
    there = agent.serials[1:]
    gone = agent.topology()
    gone["gpus"] = [gpu for gpu in gone["gpus"] if gpu["serial"] in there]
    for _ in range(2):
        await do(fleet, agent, topology=gone)
        await fleet.order(f"/nodes/{agent.id}/inspect")
    slots = await fleet.slots(agent)
    assert [slots[serial]["sellable"] for serial in agent.serials] == [False, True, True, True]
    assert slots[agent.serials[0]]["present"] is False


async def test_a_fault_told_again_counts_once_and_one_of_an_application_not_at_all(fleet: Fleet):
    agent = await fleet.ready()
    at = clock.now()
    for _ in range(3):
        found(await agent.fault(agent.serials[0], at=at), 200)
        found(await agent.fault(agent.serials[1], kind="application", code="XID 31", at=at), 200)
    slots = await fleet.slots(agent)
    assert slots[agent.serials[0]]["strikes"] == 1
    assert slots[agent.serials[1]]["sellable"] is True
    history = await fleet.city.get(fleet.admin, f"/nodes/{agent.id}/health", serial=agent.serials[1])
    assert [entry["kind"] for entry in history["items"]] == ["fault", "check"]


async def test_a_gpu_returns_only_through_the_check_under_load_that_was_asked_for(fleet: Fleet):
    agent = await fleet.ready()
    serial = agent.serials[0]
    found(await agent.fault(serial), 200)
    slot = (await fleet.slots(agent))[serial]

    await fleet.order(f"/nodes/{agent.id}/check", {"load": False})
    await do(fleet, agent)
    await fleet.order(f"/nodes/{agent.id}/check", {"load": True})
    await do(fleet, agent)
    assert (await fleet.slots(agent))[serial]["sellable"] is False, "nobody asked for its return"

    asked = await fleet.order(f"/slots/{slot['id']}/return", {"reason": "reseated"})
    assert asked["type"] == "node.health"
    await do(fleet, agent, health=agent.health(sick=(serial,), only=[serial]))
    assert (await fleet.slots(agent))[serial]["sellable"] is False, "it failed"

    await fleet.order(f"/slots/{slot['id']}/return", {"reason": "replaced the riser"})
    await do(fleet, agent)
    back = (await fleet.slots(agent))[serial]
    assert (back["sellable"], back["quarantine"], back["strikes"]) == (True, None, 1)
    assert len(await fleet.events("slot.returned", back["id"])) == 1
    assert refusal(await fleet.city.ask(fleet.admin, "POST", f"/slots/{slot['id']}/return", {"reason": "again"})) == (
        409,
        "slot_not_quarantined",
    )


async def test_a_fault_during_the_check_makes_it_worthless(fleet: Fleet):
    agent = await fleet.ready()
    serial = agent.serials[0]
    found(await agent.fault(serial), 200)
    slot = (await fleet.slots(agent))[serial]
    await fleet.order(f"/slots/{slot['id']}/return", {"reason": "reseated"})
    await fleet.sign()
    [_, order] = await agent.claim()
    found(await agent.fault(serial, at=clock.now() + timedelta(seconds=1)), 200)
    found(await agent.report(order.task_id, result=agent.health(only=[serial])), 200)
    await fleet.react()
    assert (await fleet.slots(agent))[serial]["sellable"] is False


async def test_what_a_reset_heals_is_checked_without_an_operator_until_it_has_too_many_strikes(fleet: Fleet):
    agent = await fleet.ready()
    serial = agent.serials[0]
    for strike in range(1, 4):
        found(await agent.fault(serial, kind="resettable", code="XID 45"), 200)
        await do(fleet, agent)
        slot = (await fleet.slots(agent))[serial]
        assert (slot["strikes"], slot["sellable"]) == (strike, strike < 3)


async def test_strikes_go_with_the_serial_number_to_another_node(fleet: Fleet):
    first = await fleet.ready()
    found(await first.fault(first.serials[0]), 200)
    second = await fleet.enrolled()
    second.serials = [first.serials[0], *second.serials[1:]]
    found(await second.heartbeat(), 200)
    await do(fleet, second)
    assert (await fleet.slots(second))[first.serials[0]]["strikes"] == 1


async def test_a_failed_check_quarantines_what_failed_and_a_sick_host_keeps_all_of_it(fleet: Fleet):
    agent = await fleet.ready()
    await fleet.order(f"/nodes/{agent.id}/check", {})
    await do(fleet, agent, health=agent.health(sick=(agent.serials[3],)))
    slots = await fleet.slots(agent)
    assert [slots[serial]["sellable"] for serial in agent.serials] == [True, True, True, False]
    await fleet.order(f"/nodes/{agent.id}/check", {})
    await do(fleet, agent, health=agent.health(host=False))
    node = await fleet.node(agent)
    assert (node["health"], node["sellable"]) == ("unhealthy", False)
    assert node["why_not"] == ["the node is not healthy: disk"]
    await fleet.order(f"/nodes/{agent.id}/check", {})
    await do(fleet, agent)
    assert (await fleet.node(agent))["sellable"] is True


async def test_hardware_that_is_not_its_skus_is_not_sold_and_the_difference_is_shown(fleet: Fleet):
    agent = await fleet.enrolled()
    found(await agent.heartbeat(), 200)
    await do(fleet, agent, topology=agent.topology(model="NVIDIA H20"))
    node = await fleet.node(agent)
    assert node["sellable"] is False
    assert len(node["differences"]) == 4
    assert all("expected H200, found NVIDIA H20" in difference for difference in node["differences"])
    await fleet.order(f"/nodes/{agent.id}/inspect")
    await do(fleet, agent)
    assert (await fleet.node(agent))["sellable"] is True


async def test_an_operators_quarantine_is_no_strike_and_needs_him_for_the_return(fleet: Fleet):
    agent = await fleet.ready()
    serial = agent.serials[1]
    slot_id = (await fleet.slots(agent))[serial]["id"]
    said = await fleet.order(f"/slots/{slot_id}/quarantine", {"reason": "to be replaced"}, 200)
    assert (said["sellable"], said["strikes"], said["quarantine"]["detail"]) == (False, 0, "to be replaced")
    again = await fleet.city.ask(fleet.admin, "POST", f"/slots/{slot_id}/quarantine", {"reason": "again"})
    assert refusal(again) == (409, "slot_quarantined")
    assert refusal(await fleet.city.ask(fleet.admin, "POST", f"/slots/{new_id()}/quarantine", {"reason": "none"})) == (
        404,
        "slot_missing",
    )


# the circuit breaker -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("outcomes", "trips"),
    [
        (["failed", "failed"], True),
        (["failed", "done", "failed"], False),
        (["failed"], False),
        (["done", "failed", "failed"], True),
        (["failed", "timed_out"], True),
        (["refused", "refused"], False),
    ],
)
async def test_two_failed_provisions_in_a_row_take_the_node_out(fleet: Fleet, outcomes: list[str], trips: bool):
    agent = await fleet.ready()
    for outcome in outcomes:
        await provision(fleet, agent, outcome)
    node = await fleet.node(agent)
    assert (node["quarantine"] is not None) is trips
    if trips:
        assert node["quarantine"]["reason"] == "provisions_failed"
        assert "no disk" in node["quarantine"]["detail"]
        assert not any(slot["sellable"] for slot in (await fleet.slots(agent)).values())


async def test_after_its_return_a_node_may_fail_once_again(fleet: Fleet):
    agent = await fleet.ready()
    for _ in range(2):
        await provision(fleet, agent, "failed")
    await fleet.order(f"/nodes/{agent.id}/return", {"reason": "a new disk"})
    await do(fleet, agent, health=agent.health(sick=(agent.serials[0],)))
    assert (await fleet.node(agent))["health"] == "quarantined", "one of its GPUs is sick"
    await fleet.order(f"/nodes/{agent.id}/return", {"reason": "a new GPU"})
    await do(fleet, agent)
    assert (await fleet.node(agent))["quarantine"] is None
    await provision(fleet, agent, "failed")
    assert (await fleet.node(agent))["quarantine"] is None
    await provision(fleet, agent, "failed")
    assert (await fleet.node(agent))["quarantine"] is not None


async def provision(fleet: Fleet, agent: Agent, outcome: str) -> None:
    async with fleet.db.transaction(EVERYTHING, "test") as tx:
        task = await tasks.task_create(tx, agent.id, UserProvision(login="gabc", ssh_keys=[], gpus=[]))
    await fleet.sign()
    await agent.claim()
    done = {"result": {"uid": 60001, "home": "/home/gabc"}} if outcome == "done" else {"reason": "no disk"}
    found(await agent.report(task.id, outcome, **done), 200)
    await fleet.react()


# what operators see --------------------------------------------------------------------------------------------------
async def test_the_fleets_health_counts_and_names_what_is_the_matter(fleet: Fleet):
    before = await fleet.city.get(fleet.admin, "/ops/fleet-health")
    agent, waiting = await fleet.ready(), await fleet.created()
    found(await agent.fault(agent.serials[0]), 200)
    after = await fleet.city.get(fleet.admin, "/ops/fleet-health")
    assert after["nodes"] == before["nodes"] + 2
    assert after["slots"] == before["slots"] + 4
    assert after["slots_sellable"] == before["slots_sellable"] + 3
    assert after["slots_quarantined"] == before["slots_quarantined"] + 1
    assert after["ok"] is False
    about = {(trouble["node_id"], trouble["serial"]): trouble["why_not"] for trouble in after["troubles"]}
    assert about[str(agent.id), agent.serials[0]] == ["the GPU is in quarantine: XID 79"]
    assert "the node is enrolling" in about[waiting["id"], ""]


async def test_slots_are_listed_by_whether_they_can_be_sold_page_by_page(fleet: Fleet):
    agents = [await fleet.ready() for _ in range(3)]
    found(await agents[1].fault(agents[1].serials[0]), 200)
    seen: list[Any] = []
    cursor: dict[str, str] = {}
    for _ in range(100):
        page = await fleet.city.get(fleet.admin, "/slots", sellable="true", limit=8, **cursor)
        seen += page["items"]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    serials = [slot["serial"] for slot in seen]
    assert len(serials) == len(set(serials))
    wanted = {serial for agent in agents for serial in agent.serials} - {agents[1].serials[0]}
    assert wanted <= set(serials)
    assert agents[1].serials[0] not in serials


async def test_metrics_count_once_and_are_shown_newest_first(fleet: Fleet):
    agent = await fleet.ready()
    now = clock.now()
    batch = {
        "batch_id": str(new_id()),
        "samples": [
            {"at": now - timedelta(seconds=n), "values": {"host.load1": float(n), "gpu.S1.temperature_c": 61.5}}
            for n in range(20)
        ],
    }
    for _ in range(3):
        found(await agent.say("/metrics", batch), 200)
    shown = await fleet.city.get(fleet.admin, f"/nodes/{agent.id}/metrics", limit=5)
    assert [sample["values"]["host.load1"] for sample in shown["samples"]] == [0, 1, 2, 3, 4]
    everything = await fleet.city.get(fleet.admin, f"/nodes/{agent.id}/metrics", limit=1000)
    assert len(everything["samples"]) == 20


async def test_samples_that_come_late_find_their_day_and_those_of_no_day_that_is_kept_are_dropped(fleet: Fleet):
    agent, now = await fleet.ready(), clock.now()
    late = [now - timedelta(days=days, minutes=1) for days in (0, 1, 6)]
    lost = [now - timedelta(days=400), now + timedelta(days=400)]
    samples = [{"at": at, "values": {"a": 1.0}} for at in (*late, *lost)]
    found(await agent.say("/metrics", {"batch_id": str(new_id()), "samples": samples}), 200)
    async with fleet.db.read(EVERYTHING) as tx:
        rows = await tx.rows("SELECT at FROM node_metrics WHERE node_id = $1 ORDER BY at DESC", agent.id)
    assert [row["at"] for row in rows] == late


async def test_history_and_metrics_end_with_their_retention(fleet: Fleet, superuser: Any):
    agent = await fleet.ready()
    found(await agent.fault(agent.serials[0], kind="application"), 200)
    now, old = clock.now(), clock.now() - timedelta(days=380)
    await superuser.execute("SELECT ensure_metric_days($1, 0), ensure_partitions('node_health', $1, 0)", old)
    samples = [{"at": at, "values": {"a": 1.0}} for at in (now, old)]
    found(await agent.say("/metrics", {"batch_id": str(new_id()), "samples": samples}), 200)
    await superuser.execute(
        "INSERT INTO node_health SELECT $2, node_id, serial, kind, good, code, detail, $3 FROM node_health "
        "WHERE node_id = $1 LIMIT 1",
        agent.id,
        floor_id(old),
        old,
    )
    await superuser.execute("UPDATE gpu_faults SET id = $2 WHERE node_id = $1", agent.id, floor_id(old))
    count = (
        "SELECT (SELECT count(*) FROM node_health WHERE node_id = $1), "
        "(SELECT count(*) FROM gpu_faults WHERE node_id = $1), "
        "(SELECT count(*) FROM node_metrics WHERE node_id = $1)"
    )
    before = tuple(await superuser.fetchrow(count, agent.id))
    for prune in (handlers.health_prune, metrics.metrics_prune, task_handlers.tasks_prune):
        await prune(fleet.city.parts)
    assert tuple(await superuser.fetchrow(count, agent.id)) == (before[0] - 1, before[1] - 1, before[2] - 1)
    days = "SELECT array_agg(relname ORDER BY relname) FROM pg_class WHERE relname LIKE 'node_metrics_p________'"
    kept = await superuser.fetchval(days)
    assert kept[0] == f"node_metrics_p{now - timedelta(days=7):%Y%m%d}"
    assert kept[-1] == f"node_metrics_p{now + timedelta(days=7):%Y%m%d}", "made ahead"


async def test_the_application_cannot_drop_what_is_young(fleet: Fleet):
    for call in ("prune_metric_days(now() - interval '1 hour')", "prune_partitions('node_health', now())"):
        with pytest.raises(asyncpg.RaiseError, match="may not prune"):
            async with fleet.db.transaction(EVERYTHING, "test") as tx:
                await tx.run(f"SELECT {call}")
