"""What a hostile or broken agent can say: another node's ids, results again and otherwise, too much, too absurd."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from gpuaas.contracts.tasks.base import MAX_LOG
from gpuaas.domains import load_routes
from gpuaas.infra.http.operation import REGISTRY
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.support.fleet import EVERYTHING, Agent, Fleet
from tests.support.people import found, refusal

NOW = "2026-01-01T00:00:00Z"
# Every agent operation that names something: a valid body, to be sent with another node's id in the path.
WITH_IDS: dict[str, Any] = {
    "agent_task_phases": {"phases": [{"name": "begun", "at": NOW}]},
    "agent_task_result": {"outcome": "failed", "reason": "no", "ended_at": NOW},
}
# Those that name nothing but the speaker: what they change is the speaker's own.
WITHOUT_IDS = {"agent_claim", "agent_heartbeat", "agent_faults", "agent_metrics", "agent_trust", "certificate_renew"}
# Read by an id that is the operator's; who may is tested where artifacts are.
READS = {"agent_artifact"}


async def working(fleet: Fleet) -> tuple[Agent, UUID]:
    """An agent with a task in hand."""
    agent = await fleet.ready()
    await fleet.order(f"/nodes/{agent.id}/inspect")
    await fleet.sign()
    [order] = await agent.claim()
    return agent, order.task_id


async def row(fleet: Fleet, task_id: UUID) -> dict[str, Any]:
    async with fleet.db.read(EVERYTHING) as tx:
        return dict(await tx.row("SELECT * FROM tasks WHERE id = $1", task_id) or {})


def said(answer: httpx.Response) -> Any:
    return answer.json()["error"] | {"correlation_id": ""}


def test_every_agent_operation_is_tried_with_another_nodes_ids() -> None:
    load_routes()
    assert {op.id for op in REGISTRY.agent()} == set(WITH_IDS) | WITHOUT_IDS | READS


@pytest.mark.parametrize("operation_id", WITH_IDS)
async def test_another_nodes_task_is_as_if_it_were_not(fleet: Fleet, operation_id: str):
    op = REGISTRY.get(operation_id)
    victim, task_id = await working(fleet)
    thief = await fleet.ready()
    before = await row(fleet, task_id)
    path = op.path.replace("{task_id}", "{}")
    stolen = await thief.say(path.format(task_id), WITH_IDS[operation_id])
    absent = await thief.say(path.format(new_id()), WITH_IDS[operation_id])
    assert refusal(stolen) == (404, "task_missing")
    assert (stolen.status_code, said(stolen)) == (absent.status_code, said(absent))
    assert await row(fleet, task_id) == before
    assert found(await victim.report(task_id, result={"topology": victim.topology()}), 200)["state"] == "done"


async def test_a_claim_never_hands_over_another_nodes_tasks(fleet: Fleet):
    victim, thief = await fleet.ready(), await fleet.ready()
    for _ in range(3):
        await fleet.order(f"/nodes/{victim.id}/inspect")
    await fleet.sign()
    for sequence in range(thief.next_sequence, 20):
        answer = found(await thief.say("/claim", {"next_sequence": sequence, "wait_seconds": 0}), 200)
        assert answer == {"envelopes": [], "cancelled": []}
    assert len(await victim.claim()) == 3


async def test_another_nodes_gpu_is_not_quarantined_and_gets_no_strike(fleet: Fleet):
    victim, thief = await fleet.ready(), await fleet.ready()
    found(await thief.fault(victim.serials[0]), 200)
    slot = (await fleet.slots(victim))[victim.serials[0]]
    assert (slot["sellable"], slot["strikes"], slot["quarantine"]) == (True, 0, None)


async def test_a_stranger_without_a_certificate_is_nobody(fleet: Fleet):
    for op in REGISTRY.agent():
        answer = await fleet.agents.request(op.method, op.full_path.replace("{task_id}", str(new_id())), json={})
        assert refusal(answer) == (401, "credential_missing")


async def test_people_and_agents_have_doors_of_their_own(fleet: Fleet):
    agent = await fleet.ready()
    assert (await fleet.city.client.post("/agent/v1/claim", json={"next_sequence": 1})).status_code == 404
    assert (await agent.client.get("/api/v1/nodes", headers={"x-test-node": str(agent.id)})).status_code == 404


# results -------------------------------------------------------------------------------------------------------------
async def test_the_same_result_again_has_the_same_answer_and_another_is_refused(fleet: Fleet):
    agent, task_id = await working(fleet)
    good = {"outcome": "done", "ended_at": NOW, "result": {"topology": agent.topology()}}
    first = found(await agent.say(f"/tasks/{task_id}/result", good), 200)
    after_first = await row(fleet, task_id)
    for _ in range(3):
        assert found(await agent.say(f"/tasks/{task_id}/result", good), 200) == first
    for other in (
        good | {"ended_at": "2026-01-01T00:00:01Z"},
        good | {"log": "more"},
        {"outcome": "failed", "reason": "no, it failed", "ended_at": NOW},
    ):
        assert refusal(await agent.say(f"/tasks/{task_id}/result", other)) == (409, "task_reported")
    assert await row(fleet, task_id) == after_first
    assert len(await fleet.events("task.ended", task_id)) == 1


async def test_twenty_different_results_at_once_are_one(fleet: Fleet):
    agent, task_id = await working(fleet)
    answers = await asyncio.gather(*(agent.report(task_id, "failed", reason=f"reason {n}") for n in range(20)))
    codes = sorted(answer.status_code for answer in answers)
    assert codes == [200] + [409] * 19
    assert len(await fleet.events("task.ended", task_id)) == 1


async def test_results_in_another_order_are_each_their_tasks(fleet: Fleet):
    agent = await fleet.ready()
    for _ in range(4):
        await fleet.order(f"/nodes/{agent.id}/inspect")
    await fleet.sign()
    orders = await agent.claim()
    for order in reversed(orders):
        found(await agent.report(order.task_id, "failed", reason=f"task {order.sequence}"), 200)
    for order in orders:
        assert (await row(fleet, order.task_id))["reason"] == f"task {order.sequence}"


async def test_a_task_that_was_not_handed_over_cannot_be_reported(fleet: Fleet):
    agent = await fleet.ready()
    queued = await fleet.order(f"/nodes/{agent.id}/inspect")
    assert refusal(await agent.report(queued["id"], "failed")) == (404, "task_missing")
    await fleet.sign()
    assert refusal(await agent.report(queued["id"], "failed")) == (404, "task_missing")
    assert [order.task_id for order in await agent.claim()] == [UUID(queued["id"])]


@pytest.mark.parametrize(
    "result",
    [
        None,
        {},
        [],
        {"topology": None},
        {"topology": {}},
        {"health": {}},
        {"topology": "x" * 1000},
        7,
        "done",
    ],
)
async def test_a_result_that_is_not_its_types_is_refused_and_changes_nothing(fleet: Fleet, result: Any):
    agent, task_id = await working(fleet)
    before = await row(fleet, task_id)
    assert refusal(await agent.report(task_id, result=result)) == (422, "request_invalid")
    assert await row(fleet, task_id) == before


async def test_a_log_is_kept_up_to_its_limit_and_refused_beyond(fleet: Fleet):
    agent, task_id = await working(fleet)
    too_long = await agent.report(task_id, "failed", log="x" * (MAX_LOG + 1))
    assert refusal(too_long) == (422, "request_invalid")
    flood = await agent.report(task_id, "failed", log="x" * 1_000_000)
    assert refusal(flood) == (413, "body_too_large")
    found(await agent.report(task_id, "failed", log="y" * MAX_LOG), 200)
    task = await fleet.city.get(fleet.admin, f"/tasks/{task_id}")
    assert task["log"] == "y" * MAX_LOG


async def test_phases_are_bounded_and_told_again_count_once(fleet: Fleet):
    agent, task_id = await working(fleet)
    start = clock.now()

    def phases(first: int, count: int) -> dict[str, Any]:
        return {
            "phases": [
                {"name": "step", "at": start + timedelta(seconds=first + n), "detail": "x" * 500} for n in range(count)
            ]
        }

    assert (await agent.say(f"/tasks/{task_id}/phases", phases(0, 51))).status_code == 422
    for _ in range(2):
        for first in range(0, 300, 50):
            found(await agent.say(f"/tasks/{task_id}/phases", phases(first, 50)), 200)
    task = await fleet.city.get(fleet.admin, f"/tasks/{task_id}")
    assert len(task["phases"]) == 200
    assert task["state"] == "running"


# absurd --------------------------------------------------------------------------------------------------------------
HEARTBEAT: dict[str, Any] = {
    "boot_id": "b",
    "agent_version": "1",
    "next_sequence": 1,
    "sent_at": NOW,
    "generation": 0,
    "accounts": [],
}
FAULT: dict[str, Any] = {"serial": "S1", "kind": "hardware", "code": "XID 79", "at": NOW}
ABSURD: list[tuple[str, Any]] = [
    *(
        ("/heartbeat", HEARTBEAT | change)
        for change in (
            {"next_sequence": 0},
            {"next_sequence": -1},
            {"next_sequence": 1 << 60},
            {"next_sequence": "1"},
            {"sent_at": "2026-01-01T00:00:00"},
            {"sent_at": "9999-12-31T23:59:59-14:00"},
            {"sent_at": "0001-01-01T00:00:00+14:00"},
            {"generation": -1},
            {"boot_id": ""},
            {"boot_id": "x" * 101},
            {"accounts": ["root;rm -rf /"]},
            {"accounts": ["a,b"]},
            {"accounts": ["x"] * 1001},
            {"accounts": ["a\0"]},
            {"leases": {str(new_id()): ["S\0"]}},
            {"leases": {str(new_id()): ["S"] * 65}},
            {"leases": {str(new_id()): ["S"] for _ in range(65)}},
            {"leases": {"mine": ["S1"]}},
            {"node_id": str(new_id())},
            {"agent_version": "v" * 61},
        )
    ),
    *(
        ("/claim", {"next_sequence": 1, "wait_seconds": 0} | change)
        for change in (
            {"wait_seconds": 31},
            {"wait_seconds": -1},
            {"next_sequence": 0},
            {"next_sequence": 1 << 54},
            {"node_id": "x"},
        )
    ),
    *(
        ("/faults", {"faults": [FAULT | change]})
        for change in (
            {"at": "2026-01-01T00:00:00"},
            {"at": "9999-12-31T23:59:59-14:00"},
            {"serial": ""},
            {"serial": "x" * 101},
            {"kind": "cosmic"},
            {"code": "x" * 41},
            {"detail": "x" * 501},
            {"detail": "\0"},
            {"node_id": "x"},
        )
    ),
    ("/faults", {"faults": []}),
    ("/faults", {"faults": [FAULT] * 65}),
    *(
        ("/metrics", {"batch_id": str(new_id()), "samples": samples})
        for samples in (
            [],
            [{"at": "2026-01-01T00:00:00", "values": {}}],
            [{"at": NOW, "values": {"x" * 121: 1.0}}],
            [{"at": NOW, "values": {"a": "1"}}],
            [{"at": NOW, "values": {"a": None}}],
            [{"at": NOW, "values": {str(n): 1.0 for n in range(1001)}}],
            [{"at": NOW, "values": {"a\0": 1.0}}],
            [{"at": "9999-12-31T23:59:59-14:00", "values": {"a": 1.0}}],
        )
    ),
    ("/metrics", {"batch_id": "not an id", "samples": [{"at": NOW, "values": {}}]}),
]


@pytest.mark.parametrize(("path", "body"), ABSURD, ids=[f"{path}-{number}" for number, (path, _) in enumerate(ABSURD)])
async def test_absurd_reports_are_refused_and_leave_nothing(fleet: Fleet, path: str, body: Any):
    agent = await fleet.enrolled()
    counted = (
        "SELECT (SELECT count(*) FROM gpu_faults), (SELECT count(*) FROM node_metrics), "
        "(SELECT count(*) FROM node_heartbeats)"
    )
    async with fleet.db.read(EVERYTHING) as tx:
        before = tuple(await tx.row(counted) or ())
    answer = await agent.say(path, body)
    assert answer.status_code in {400, 413, 422}, answer.text
    assert answer.json()["error"]["details"] or answer.status_code != 422 or "NUL" in answer.text
    async with fleet.db.read(EVERYTHING) as tx:
        assert tuple(await tx.row(counted) or ()) == before


async def test_a_skewed_clock_is_no_reason_to_refuse_what_happened(fleet: Fleet):
    agent = await fleet.ready()
    for hours in (-26, 26):
        at = clock.now() + timedelta(hours=hours)
        found(await agent.heartbeat(sent_at=at), 200)
        found(await agent.fault(agent.serials[hours > 0], at=at), 200)
    slots = await fleet.slots(agent)
    assert [slots[serial]["sellable"] for serial in agent.serials] == [False, False, True, True]


# memory --------------------------------------------------------------------------------------------------------------
async def test_an_agent_whose_memory_was_rolled_back_is_quarantined_and_gets_nothing(fleet: Fleet):
    agent, task_id = await working(fleet)
    found(await agent.report(task_id, result={"topology": agent.topology()}), 200)
    await fleet.order(f"/nodes/{agent.id}/inspect")
    await fleet.sign()
    older = agent.next_sequence - 1
    for _ in range(2):
        answer = await agent.say("/claim", {"next_sequence": older, "wait_seconds": 0})
        assert refusal(answer) == (409, "agent_state_rolled_back")
    node = await fleet.node(agent)
    assert node["quarantine"]["reason"] == "agent_state_rolled_back"
    assert node["sellable"] is False
    assert len(await fleet.events("node.quarantined", agent.id)) == 1
    assert len(await agent.claim()) == 1, "with its memory back it is spoken with, and stays in quarantine"
    assert (await fleet.node(agent))["health"] == "quarantined"


async def test_a_phase_proves_that_the_agent_knew_the_task(fleet: Fleet):
    agent, task_id = await working(fleet)
    again = {"next_sequence": agent.next_sequence - 1, "wait_seconds": 0}
    assert len(found(await agent.say("/claim", again), 200)["envelopes"]) == 1, "an answer that was lost comes again"
    found(await agent.say(f"/tasks/{task_id}/phases", {"phases": [{"name": "begun", "at": NOW}]}), 200)
    assert refusal(await agent.say("/claim", again)) == (409, "agent_state_rolled_back")


async def test_an_agent_that_does_not_believe_an_order_does_not_have_to_remember_it(fleet: Fleet):
    """It could not know the key yet: what it refuses unread has no number in its memory."""
    agent, task_id = await working(fleet)
    found(await agent.report(task_id, "refused", code="bad_signature", reason="not trusted"), 200)
    assert found(await agent.say("/claim", {"next_sequence": agent.next_sequence - 1, "wait_seconds": 0}), 200) == {
        "envelopes": [],
        "cancelled": [],
    }
    assert (await fleet.node(agent))["quarantine"] is None


async def test_a_node_that_was_enrolled_again_begins_anew_and_returns_through_a_check_under_load(fleet: Fleet):
    agent, task_id = await working(fleet)
    await agent.say(f"/tasks/{task_id}/phases", {"phases": [{"name": "begun", "at": NOW}]})
    await agent.say("/claim", {"next_sequence": 1, "wait_seconds": 0})
    assert (await fleet.node(agent))["health"] == "quarantined"
    invited = await fleet.order(f"/nodes/{agent.id}/reenrol", {"reason": "its disk was replaced"}, 201)
    assert invited["command"].endswith(invited["token"])
    anew = await fleet.enrol(agent.id)
    anew.serials = agent.serials
    assert (await row(fleet, task_id))["state"] == "timed_out"
    found(await anew.heartbeat(), 200)
    await fleet.sign()
    await anew.work()
    await fleet.react()
    assert (await fleet.node(agent))["health"] == "quarantined"
    await fleet.order(f"/nodes/{agent.id}/return", {"reason": "looks good"})
    await fleet.sign()
    await anew.work()
    await fleet.react()
    assert (await fleet.node(agent))["sellable"] is True
