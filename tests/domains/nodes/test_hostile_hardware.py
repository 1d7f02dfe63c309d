"""What a node can claim of its hardware and health: serial numbers twice, quarantines left behind by moving, answers
that cannot be meant, returns nobody asked for."""

import asyncio
from typing import Any

import pytest

from gpuaas.domains.nodes.health import service as health
from gpuaas.domains.nodes.tasks import store as task_store
from gpuaas.kit.ids import new_id
from tests.support.fleet import EVERYTHING, Agent, Fleet
from tests.support.people import found, refusal


async def do(fleet: Fleet, agent: Agent, **answers: Any) -> None:
    """Everything that is asked of the node, done, and what follows from it."""
    await fleet.sign()
    await agent.work(**answers)
    await fleet.react()


async def joined(fleet: Fleet, *serials: str) -> Agent:
    """A new node that claims these serial numbers among its own."""
    agent = await fleet.enrolled()
    agent.serials = [*serials, *agent.serials[len(serials) :]]
    found(await agent.heartbeat(), 200)
    await do(fleet, agent)
    return agent


async def inspected(fleet: Fleet, agent: Agent, *, without: tuple[str, ...] = ()) -> None:
    await fleet.order(f"/nodes/{agent.id}/inspect")
    seen = agent.topology()
    seen["gpus"] = [gpu for gpu in seen["gpus"] if gpu["serial"] not in without]
    await do(fleet, agent, topology=seen)


# serial numbers ------------------------------------------------------------------------------------------------------
async def test_a_serial_number_two_nodes_claim_is_sold_by_neither(fleet: Fleet):
    first = await fleet.ready()
    serial = first.serials[0]
    second = await joined(fleet, serial)
    for agent, other in ((first, second), (second, first)):
        slots = await fleet.slots(agent)
        assert [slots[one]["sellable"] for one in agent.serials] == [False, True, True, True]
        held = slots[serial]["quarantine"]
        assert held["reason"] == "serial_claimed_twice"
        assert (await fleet.node(other))["name"] in held["detail"]
        assert slots[serial]["strikes"] == 0
        assert len(await fleet.events("slot.quarantined", slots[serial]["id"])) == 1
    await inspected(fleet, second)
    assert len(await fleet.events("slot.quarantined", (await fleet.slots(second))[serial]["id"])) == 1, "told once"


async def test_a_claimed_gpu_returns_only_when_one_node_is_left_with_it(fleet: Fleet):
    first = await fleet.ready()
    serial = first.serials[0]
    second = await joined(fleet, serial)
    slot = (await fleet.slots(first))[serial]
    asked = await fleet.city.ask(fleet.admin, "POST", f"/slots/{slot['id']}/return", {"reason": "it is here"})
    assert refusal(asked) == (409, "slot_disputed")
    await inspected(fleet, second, without=(serial,))
    assert (await fleet.slots(first))[serial]["sellable"] is False, "nothing moves by itself"
    await fleet.order(f"/slots/{slot['id']}/return", {"reason": "it is here"})
    await do(fleet, first)
    assert (await fleet.slots(first))[serial]["sellable"] is True


async def test_a_claim_that_comes_while_the_gpu_is_checked_makes_the_check_worthless(fleet: Fleet):
    first = await fleet.ready()
    serial = first.serials[0]
    found(await first.fault(serial), 200)
    slot = (await fleet.slots(first))[serial]
    await fleet.order(f"/slots/{slot['id']}/return", {"reason": "reseated"})
    await fleet.sign()
    await joined(fleet, serial)
    await do(fleet, first)
    assert (await fleet.slots(first))[serial]["sellable"] is False


async def test_two_nodes_that_claim_a_serial_number_at_once_are_both_seen(fleet: Fleet):
    agents = [await fleet.enrolled() for _ in range(2)]
    agents[1].serials = [agents[0].serials[0], *agents[1].serials[1:]]
    await fleet.sign()
    for agent in agents:
        found(await agent.heartbeat(), 200)
        await agent.work()
    await asyncio.gather(fleet.react(), fleet.react())
    for agent in agents:
        assert (await fleet.slots(agent))[agents[0].serials[0]]["quarantine"]["reason"] == "serial_claimed_twice"


async def test_the_gpu_of_a_removed_node_is_free_to_be_anothers(fleet: Fleet):
    first = await fleet.ready()
    found(await fleet.city.ask(fleet.admin, "DELETE", f"/nodes/{first.id}"), 200)
    second = await joined(fleet, *first.serials)
    assert all(slot["sellable"] for slot in (await fleet.slots(second)).values())


async def test_a_quarantine_goes_with_the_gpu_to_another_node(fleet: Fleet):
    first = await fleet.ready()
    serial = first.serials[0]
    found(await first.fault(serial, detail="fell off the bus"), 200)
    found(await fleet.city.ask(fleet.admin, "DELETE", f"/nodes/{first.id}"), 200)
    second = await joined(fleet, serial)
    slot = (await fleet.slots(second))[serial]
    assert (slot["sellable"], slot["strikes"]) == (False, 1)
    assert slot["quarantine"]["reason"] == "XID 79"
    await fleet.order(f"/slots/{slot['id']}/return", {"reason": "repaired"})
    await do(fleet, second)
    assert (await fleet.slots(second))[serial]["sellable"] is True


async def test_one_nodes_gpus_at_one_address_are_a_difference(fleet: Fleet):
    agent = await fleet.enrolled()
    found(await agent.heartbeat(), 200)
    seen = agent.topology()
    seen["gpus"][1]["address"] = seen["gpus"][0]["address"]
    await do(fleet, agent, topology=seen)
    assert any("address" in one for one in (await fleet.node(agent))["differences"])


async def test_an_older_inspection_that_comes_late_changes_nothing(fleet: Fleet, superuser: Any):
    agent = await fleet.ready()
    await fleet.order(f"/nodes/{agent.id}/inspect")
    await fleet.sign()
    [order] = await agent.claim()
    found(await agent.report(order.task_id, result={"topology": agent.topology(gpus=[])}), 200)
    await superuser.execute("UPDATE tasks SET ended_at = ended_at - interval '1 hour' WHERE id = $1", order.task_id)
    await fleet.react()
    assert all(slot["present"] for slot in (await fleet.slots(agent)).values())


async def test_a_replaced_gpu_is_history_and_no_trouble(fleet: Fleet):
    agent = await fleet.ready()
    old = agent.serials[0]
    agent.serials = [f"S{new_id().hex[-10:]}", *agent.serials[1:]]
    await inspected(fleet, agent)
    slots = await fleet.slots(agent)
    assert slots[old]["why_not"] == [f"the GPU was replaced by {agent.serials[0]}"]
    assert all(slots[serial]["sellable"] for serial in agent.serials)
    health = await fleet.city.get(fleet.admin, "/ops/fleet-health")
    assert old not in [trouble["serial"] for trouble in health["troubles"]]
    await inspected(fleet, agent, without=(agent.serials[3],))
    slots = await fleet.slots(agent)
    assert [slots[serial]["sellable"] for serial in agent.serials] == [True, True, True, False], "its siblings stay"


# absence -------------------------------------------------------------------------------------------------------------
async def test_a_gpu_that_was_gone_at_an_inspection_is_looked_for_by_its_return(fleet: Fleet):
    agent = await fleet.ready()
    serial = agent.serials[0]
    found(await agent.fault(serial), 200)
    await inspected(fleet, agent, without=(serial,))
    slot = (await fleet.slots(agent))[serial]
    assert slot["present"] is False
    await fleet.order(f"/slots/{slot['id']}/return", {"reason": "reseated"})
    await do(fleet, agent)
    back = (await fleet.slots(agent))[serial]
    assert (back["present"], back["sellable"], back["why_not"]) == (True, True, [])


async def test_a_gpu_that_is_still_gone_does_not_return(fleet: Fleet):
    agent = await fleet.ready()
    serial = agent.serials[0]
    found(await agent.fault(serial), 200)
    slot = (await fleet.slots(agent))[serial]
    await fleet.order(f"/slots/{slot['id']}/return", {"reason": "reseated"})
    gone = agent.topology()
    gone["gpus"] = gone["gpus"][1:]
    await do(fleet, agent, topology=gone)
    assert (await fleet.slots(agent))[serial]["sellable"] is False


# returns -------------------------------------------------------------------------------------------------------------
async def test_gpus_in_use_are_not_put_under_load(fleet: Fleet):
    agent = await fleet.ready()
    found(await agent.fault(agent.serials[0]), 200)
    slot = (await fleet.slots(agent))[agent.serials[0]]
    await agent.say("/claim", {"next_sequence": 1, "wait_seconds": 0})
    found(await agent.heartbeat(accounts=["gabc"]), 200)
    assert (await fleet.node(agent))["health"] == "quarantined"
    asked = await fleet.city.ask(fleet.admin, "POST", f"/nodes/{agent.id}/return", {"reason": "looks good"})
    assert refusal(asked) == (409, "node_in_use")
    await fleet.order(f"/slots/{slot['id']}/return", {"reason": "reseated"})
    await fleet.sign()
    orders = await agent.claim()
    [check] = [order for order in orders if order.type == "node.health"]
    in_use = {"code": "gpu_in_use", "reason": "gabc still has it"}
    found(await agent.report(check.task_id, "failed", **in_use), 200)
    await fleet.react()
    node = await fleet.node(agent)
    assert "not healthy" not in " ".join(node["why_not"]), "that a GPU is in use is no sickness of its host"
    assert (await fleet.slots(agent))[agent.serials[0]]["sellable"] is False


async def test_a_node_returns_only_through_the_check_asked_for_after_its_last_trouble(fleet: Fleet):
    agent = await fleet.ready()

    async def roll_back() -> None:
        await agent.say("/claim", {"next_sequence": 1, "wait_seconds": 0})

    await roll_back()
    for _ in range(2):
        await fleet.order(f"/nodes/{agent.id}/return", {"reason": "looks good"})
    await fleet.sign()
    first, second = [order for order in await agent.claim() if order.type == "node.health"]
    found(await agent.report(second.task_id, result=agent.health()), 200)
    await fleet.react()
    assert (await fleet.node(agent))["quarantine"] is None
    await roll_back()
    found(await agent.report(first.task_id, result=agent.health()), 200)
    await fleet.react()
    assert (await fleet.node(agent))["health"] == "quarantined", "that check was asked for before"


async def test_a_second_trouble_makes_the_check_under_way_worthless(fleet: Fleet):
    agent = await fleet.ready()
    await agent.say("/claim", {"next_sequence": 1, "wait_seconds": 0})
    await fleet.order(f"/nodes/{agent.id}/return", {"reason": "looks good"})
    await fleet.sign()
    orders = await agent.claim()
    await agent.say("/claim", {"next_sequence": 1, "wait_seconds": 0})
    for order in orders:
        found(await agent.report(order.task_id, result=agent.health()), 200)
    await fleet.react()
    assert (await fleet.node(agent))["health"] == "quarantined"


async def test_a_check_that_leaves_a_gpu_out_does_not_return_the_node(fleet: Fleet):
    agent = await fleet.ready()
    await agent.say("/claim", {"next_sequence": 1, "wait_seconds": 0})
    await fleet.order(f"/nodes/{agent.id}/return", {"reason": "looks good"})
    await do(fleet, agent, health=agent.health(only=agent.serials[:3]))
    assert (await fleet.node(agent))["health"] == "quarantined"


@pytest.mark.parametrize("order", ["sick_first", "well_first"])
async def test_a_gpu_told_of_as_well_and_as_sick_is_sick(fleet: Fleet, order: str):
    agent = await fleet.ready()
    serial = agent.serials[0]
    found(await agent.fault(serial), 200)
    slot = (await fleet.slots(agent))[serial]
    await fleet.order(f"/slots/{slot['id']}/return", {"reason": "reseated"})
    answer = agent.health(sick=(serial,), only=[serial])
    answer["health"]["gpus"] += agent.health(only=[serial])["health"]["gpus"]
    if order == "well_first":
        answer["health"]["gpus"].reverse()
    await do(fleet, agent, health=answer)
    assert (await fleet.slots(agent))[serial]["sellable"] is False


async def test_another_check_that_fails_makes_the_one_under_way_worthless(fleet: Fleet):
    agent = await fleet.ready()
    serial = agent.serials[0]
    found(await agent.fault(serial), 200)
    slot = (await fleet.slots(agent))[serial]
    await fleet.order(f"/slots/{slot['id']}/return", {"reason": "reseated"})
    await fleet.order(f"/nodes/{agent.id}/check", {"load": False})
    await fleet.sign()
    orders = [order for order in await agent.claim() if order.type == "node.health"]
    found(await agent.report(orders[1].task_id, result=agent.health(sick=(serial,))), 200)
    await fleet.react()
    found(await agent.report(orders[0].task_id, result=agent.health(only=[serial])), 200)
    await fleet.react()
    assert (await fleet.slots(agent))[serial]["sellable"] is False


async def test_a_full_queue_does_not_keep_a_sick_gpu_on_sale(fleet: Fleet, monkeypatch: pytest.MonkeyPatch):
    agent = await fleet.ready()
    monkeypatch.setattr(task_store, "MAX_OPEN", 0)
    found(await agent.fault(agent.serials[0], kind="resettable", code="XID 95"), 200)
    assert (await fleet.slots(agent))[agent.serials[0]]["sellable"] is False


async def test_a_flood_of_faults_fills_nothing_and_hides_nothing(fleet: Fleet, monkeypatch: pytest.MonkeyPatch):
    agent = await fleet.ready()
    monkeypatch.setattr(health, "FAULTS_AN_HOUR", 100)

    def faults(first: int, kind: str) -> dict[str, Any]:
        at = [f"2026-01-01T00:{(first + n) // 60:02}:{(first + n) % 60:02}Z" for n in range(50)]
        return {"faults": [{"serial": agent.serials[0], "kind": kind, "code": "XID 13", "at": one} for one in at]}

    for first in range(0, 500, 50):
        found(await agent.say("/faults", faults(first, "application")), 200)
    async with fleet.db.read(EVERYTHING) as tx:
        count = "SELECT (SELECT count(*) FROM gpu_faults WHERE node_id = $1), "
        count += "(SELECT count(*) FROM node_health WHERE node_id = $1 AND kind = 'fault')"
        assert tuple(await tx.row(count, agent.id) or ()) == (100, 100)
    found(await agent.fault(agent.serials[1]), 200)
    slots = await fleet.slots(agent)
    assert [slots[serial]["sellable"] for serial in agent.serials] == [True, False, True, True]


# what was found before -----------------------------------------------------------------------------------------------
async def test_an_enabled_node_sells_nothing_before_it_was_looked_at(fleet: Fleet):
    agent = await fleet.ready()
    await fleet.order(f"/nodes/{agent.id}/disable", {"reason": "a new board"}, 200)
    await fleet.order(f"/nodes/{agent.id}/enable", status=200)
    found(await agent.heartbeat(), 200)
    node = await fleet.node(agent)
    assert node["why_not"] == ["the node's hardware was not looked at yet", "the node's health was not checked yet"]
    await do(fleet, agent)
    assert (await fleet.node(agent))["sellable"] is True


@pytest.mark.parametrize("trouble", ["rebooted", "lost"])
async def test_a_node_that_was_lost_or_has_restarted_sells_nothing_before_it_was_looked_at(
    fleet: Fleet, superuser: Any, trouble: str
):
    agent = await fleet.ready()
    if trouble == "lost":
        await superuser.execute("UPDATE node_heartbeats SET liveness = 'lost' WHERE node_id = $1", agent.id)
    else:
        agent.boot_id = "boot-2"
    found(await agent.heartbeat(), 200)
    await fleet.react()
    assert (await fleet.node(agent))["sellable"] is False
    await do(fleet, agent)
    assert (await fleet.node(agent))["sellable"] is True


async def test_a_check_that_does_not_end_is_a_sick_host(fleet: Fleet):
    agent = await fleet.ready()
    await fleet.order(f"/nodes/{agent.id}/check", {})
    await fleet.sign()
    [order] = await agent.claim()
    found(await agent.report(order.task_id, "timed_out", code="deadline", reason="not done within 300 s"), 200)
    await fleet.react()
    assert (await fleet.node(agent))["why_not"] == [
        "the node is not healthy: the check did not end: not done within 300 s"
    ]


# two agents, two memories --------------------------------------------------------------------------------------------
async def test_two_agents_with_one_certificate_are_seen_by_their_two_results(fleet: Fleet):
    agent = await fleet.ready()
    await fleet.order(f"/nodes/{agent.id}/inspect")
    await fleet.sign()
    [order] = await agent.claim()
    found(await agent.report(order.task_id, result={"topology": agent.topology()}), 200)
    assert (await fleet.node(agent))["quarantine"] is None
    other = await agent.report(order.task_id, result={"topology": agent.topology()})
    assert refusal(other) == (409, "task_reported")
    node = await fleet.node(agent)
    assert (node["quarantine"]["reason"], node["sellable"]) == ("two_agents", False)
    assert len(await fleet.events("node.quarantined", agent.id)) == 1


async def test_an_agent_that_knows_more_than_the_control_plane_is_not_trusted_with_work(fleet: Fleet):
    """The control plane was restored from a copy: what it numbers anew, the agent takes for repetitions."""
    agent = await fleet.ready()
    found(await agent.say("/claim", {"next_sequence": agent.next_sequence, "wait_seconds": 0}), 200)
    assert (await fleet.node(agent))["quarantine"] is None
    found(await agent.say("/claim", {"next_sequence": agent.next_sequence + 1, "wait_seconds": 0}), 200)
    held = (await fleet.node(agent))["quarantine"]
    assert held["reason"] == "agent_ahead_of_control_plane"
    assert "enrol it again" in held["detail"]


# answers that cannot be meant ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "change",
    [
        {"at": "9999-12-31T23:59:59-14:00"},
        {"at": "0001-01-01T00:00:00+14:00"},
        {"at": "2026-01-01T00:00:00"},
    ],
    ids=str,
)
async def test_a_check_with_a_fault_at_no_time_is_refused_and_blocks_nothing(fleet: Fleet, change: dict[str, Any]):
    agent = await fleet.ready()
    await fleet.order(f"/nodes/{agent.id}/check", {})
    await fleet.sign()
    [order] = await agent.claim()
    answer = agent.health()
    fault = {"serial": agent.serials[0], "kind": "hardware", "code": "XID 79", "at": "2026-01-01T00:00:00Z"}
    answer["health"]["faults"] = [fault | change]
    assert refusal(await agent.report(order.task_id, result=answer)) == (422, "request_invalid")
    answer["health"]["faults"] = [fault]
    found(await agent.report(order.task_id, result=answer), 200)
    await fleet.react()
    assert (await fleet.slots(agent))[agent.serials[0]]["sellable"] is False


@pytest.mark.parametrize("number", [b"1e999", b"-1e999"])
async def test_numbers_without_an_end_are_refused(fleet: Fleet, number: bytes):
    agent = await fleet.ready()
    body = b'{"batch_id":"%b","samples":[{"at":"2026-01-01T00:00:00Z","values":{"a":%b}}]}'
    answer = await agent.client.post(
        "/agent/v1/metrics",
        content=body % (str(new_id()).encode(), number),
        headers={"x-test-node": str(agent.id), "content-type": "application/json"},
    )
    assert answer.status_code in {400, 422}, answer.text
    await fleet.city.get(fleet.admin, f"/nodes/{agent.id}/metrics")


async def test_phases_told_at_once_are_bounded_too(fleet: Fleet):
    agent = await fleet.ready()
    await fleet.order(f"/nodes/{agent.id}/inspect")
    await fleet.sign()
    [order] = await agent.claim()

    async def tell(first: int) -> None:
        phases = [{"name": "step", "at": f"2026-01-01T{first:02}:00:{n:02}Z"} for n in range(50)]
        found(await agent.say(f"/tasks/{order.task_id}/phases", {"phases": phases}), 200)

    await asyncio.gather(*(tell(first) for first in range(20)))
    async with fleet.db.read(EVERYTHING) as tx:
        kept = await tx.value("SELECT count(*) FROM task_phases WHERE task_id = $1", order.task_id)
    assert kept == 200
