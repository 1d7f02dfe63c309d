"""Tasks on their way: created, signed, claimed, told of, ended."""

import asyncio
import base64
import os
import time
from typing import Any
from uuid import UUID

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gpuaas.contracts.tasks.base import PAYLOAD_TYPE, TASK_TYPES, Order
from gpuaas.contracts.tasks.catalogue import (
    AgentUpdate,
    Drain,
    HealthCheck,
    Inspect,
    Sanitise,
    SlotLease,
    SlotUnlease,
    UserProvision,
    UserRevoke,
    UserSuspend,
)
from gpuaas.contracts.tasks.keys import STATEMENT_TYPE, KeyStatement
from gpuaas.domains.nodes.claims import service as claims
from gpuaas.domains.nodes.tasks import handlers, service, store
from gpuaas.domains.nodes.tasks.signing import TaskSigner
from gpuaas.domains.nodes.tasks.states import LIFE
from gpuaas.kit import dsse
from gpuaas.kit.ids import new_id
from tests.support.fleet import EVERYTHING, Agent, Fleet
from tests.support.people import found, refusal

SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
NOW = "2026-01-01T00:00:00Z"
# Every task type there is, with arguments and what a node answers.
EVERY_TYPE: list[tuple[Any, dict[str, Any]]] = [
    (Inspect(), {}),
    (HealthCheck(), {}),
    (UserProvision(login="gabc", ssh_keys=[SSH_KEY], gpus=[]), {"uid": 60001, "home": "/home/gabc"}),
    (
        UserRevoke(login="gabc"),
        {
            "existed": True,
            "ended_processes": 2,
            "left": {"processes": 0, "files": 0, "timers": 0, "ipc": 0, "sessions": 0},
        },
    ),
    (
        UserSuspend(login="gabc"),
        {
            "existed": True,
            "ended_processes": 2,
            "left": {"processes": 0, "timers": 0, "ipc": 0, "sessions": 0},
        },
    ),
    (SlotLease(allocation_id=UUID(int=7), serials=["S1"]), {"serials": ["S1"]}),
    (SlotUnlease(allocation_id=UUID(int=7)), {"existed": True}),
    (Drain(), {"accounts": []}),
    (
        Sanitise(serials=["S1"]),
        {"cleanings": [{"target": "S1", "method": "reset", "clean": True, "evidence": "ok", "at": NOW}]},
    ),
    (
        AgentUpdate(version="2", digest="sha256:" + "0" * 64, artifact_id=UUID(int=7)),
        {"version": "2", "rolled_back": False},
    ),
]


async def ask(fleet: Fleet, agent: Agent, task: Any, **more: Any) -> UUID:
    async with fleet.db.transaction(EVERYTHING, "test") as tx:
        return (await service.task_create(tx, agent.id, task, **more)).id


async def state(fleet: Fleet, task_id: UUID) -> str:
    return str((await fleet.city.get(fleet.admin, f"/tasks/{task_id}"))["state"])


async def sequences(fleet: Fleet, agent: Agent) -> list[int | None]:
    async with fleet.db.read(EVERYTHING) as tx:
        rows = await tx.rows("SELECT sequence FROM tasks WHERE node_id = $1 ORDER BY sequence", agent.id)
    return [row["sequence"] for row in rows]


async def test_a_node_becomes_sellable_by_being_enrolled_inspected_and_checked(fleet: Fleet):
    agent = await fleet.ready()
    node = await fleet.node(agent)
    assert node["why_not"] == []
    assert node["sellable"] is True
    assert node["liveness"] == "online"
    slots = await fleet.slots(agent)
    assert set(slots) == set(agent.serials)
    assert all(slot["sellable"] for slot in slots.values())


async def test_tasks_come_in_order_and_without_a_gap(fleet: Fleet):
    agent = await fleet.enrolled()
    for _ in range(5):
        await fleet.order(f"/nodes/{agent.id}/inspect")
    await fleet.sign()
    orders = await agent.claim()
    assert [order.sequence for order in orders] == list(range(1, 8))


async def test_tasks_of_one_moment_come_as_they_were_asked_for(fleet: Fleet):
    agent = await fleet.enrolled()
    wanted: list[Any] = [Inspect(), HealthCheck(), Drain(), HealthCheck(load=True), UserRevoke(login="gabc")] * 3
    async with fleet.db.transaction(EVERYTHING, "test") as tx:
        made = [(await service.task_create(tx, agent.id, task)).id for task in wanted]
    await fleet.sign()
    assert [order.task_id for order in await agent.claim()][2:] == made


async def test_an_order_is_signed_over_its_exact_bytes_for_its_node_and_ends_in_ten_minutes(fleet: Fleet):
    agent = await fleet.enrolled()
    await fleet.sign()
    said = found(await agent.say("/claim", {"next_sequence": 1, "wait_seconds": 0}), 200)
    trust = found(await agent.say("/trust", method="GET"), 200)
    keys = {k["key_id"]: _public(k["public_key"]) for k in trust["task_keys"]}
    for envelope in said["envelopes"]:
        payload, key_id = dsse.unseal(envelope.encode(), PAYLOAD_TYPE, keys)
        order = msgspec.json.decode(payload, type=Order)
        assert (order.node_id, key_id) == (agent.id, fleet.signer.key_id)
        assert 0 < (order.expires_at - order.issued_at).total_seconds() <= 600


async def test_workers_signing_at_once_leave_no_gap_and_sign_nothing_twice(fleet: Fleet):
    agents = [await fleet.enrolled() for _ in range(4)]
    stop = asyncio.Event()

    async def worker() -> None:
        while not stop.is_set():
            await handlers.tasks_sign_once(fleet.db, fleet.signer, fleet.hints)
            await asyncio.sleep(0)

    async def creator(agent: Agent) -> None:
        for _ in range(40):
            await ask(fleet, agent, Inspect())

    workers = [asyncio.create_task(worker()) for _ in range(3)]
    await asyncio.gather(*(creator(agent) for agent in agents))
    stop.set()
    await asyncio.gather(*workers)
    await fleet.sign()
    for agent in agents:
        assert await sequences(fleet, agent) == list(range(1, 43))


async def test_cancelling_while_it_is_signed_leaves_no_gap(fleet: Fleet):
    agent = await fleet.enrolled()
    made = [await ask(fleet, agent, Inspect()) for _ in range(30)]

    async def cancel(task_id: UUID) -> None:
        await fleet.city.ask(fleet.admin, "POST", f"/tasks/{task_id}/cancel", {"reason": "not wanted"})

    await asyncio.gather(*(cancel(task_id) for task_id in made[::2]), fleet.sign(), fleet.sign())
    await fleet.sign()
    signed = [number for number in await sequences(fleet, agent) if number is not None]
    assert signed == list(range(1, len(signed) + 1))


async def nobody(_db: Any, _nodes: Any) -> list[UUID]:
    """A look that finds nothing, so that only hints wake."""
    return []


@pytest.mark.parametrize("hints_arrive", [True, False])
async def test_a_waiting_agent_has_a_task_within_moments_of_its_making(fleet: Fleet, hints_arrive: bool):
    """With the worker's own loop; without hints it takes up to the look of each second. With them nobody looks."""
    agent = await fleet.ready()
    following = asyncio.create_task(handlers.tasks_follow(fleet.db, fleet.signer, fleet.hints))
    fleet.hints.deaf = not hints_arrive
    took = []
    try:
        for _ in range(10 if hints_arrive else 2):
            waiting = asyncio.create_task(agent.claim(wait_seconds=10))
            await asyncio.sleep(0.05)
            made = time.monotonic()
            await ask(fleet, agent, Inspect())
            assert len(await waiting) == 1
            took.append(time.monotonic() - made)
    finally:
        fleet.hints.deaf = False
        following.cancel()
    assert max(took) < (0.5 if hints_arrive else 2.0), took


async def test_a_hint_is_enough_for_the_signer(fleet: Fleet, monkeypatch: pytest.MonkeyPatch):
    """Making a task tells the signer, and signing it tells the api: nobody has to look by himself."""
    monkeypatch.setattr(handlers, "LOOK_SECONDS", 60.0)
    monkeypatch.setattr(claims, "_to_wake", nobody)
    agent = await fleet.ready()
    following = asyncio.create_task(handlers.tasks_follow(fleet.db, fleet.signer, fleet.hints))
    try:
        for _ in range(5):
            waiting = asyncio.create_task(agent.claim(wait_seconds=20))
            await asyncio.sleep(0.05)
            await ask(fleet, agent, Inspect())
            assert len(await asyncio.wait_for(waiting, 10)) == 1
    finally:
        following.cancel()


@pytest.mark.parametrize("hints_arrive", [True, False])
@pytest.mark.parametrize("verb", ["disable", "remove"])
async def test_a_claim_that_waits_ends_when_its_node_is_taken_out_of_service(
    fleet: Fleet, verb: str, hints_arrive: bool, monkeypatch: pytest.MonkeyPatch
):
    agent = await fleet.ready()
    if hints_arrive:
        monkeypatch.setattr(claims, "_to_wake", nobody)
    fleet.hints.deaf = not hints_arrive
    try:
        waiting = asyncio.create_task(agent.say("/claim", {"next_sequence": agent.next_sequence, "wait_seconds": 30}))
        await asyncio.sleep(0.2)
        method, path = ("POST", "/disable") if verb == "disable" else ("DELETE", "")
        body = {"reason": "broken"} if verb == "disable" else None
        found(await fleet.city.ask(fleet.admin, method, f"/nodes/{agent.id}{path}", body), 200)
        assert refusal(await asyncio.wait_for(waiting, 10)) == (404, "node_missing")
    finally:
        fleet.hints.deaf = False


async def test_a_claim_waits_as_long_as_asked_and_a_newer_one_takes_its_place(fleet: Fleet):
    agent = await fleet.ready()
    started = time.monotonic()
    assert await agent.claim(wait_seconds=1) == []
    assert 0.9 < time.monotonic() - started < 1.9
    older = asyncio.create_task(agent.claim(wait_seconds=20))
    await asyncio.sleep(0.05)
    newer = asyncio.create_task(agent.claim(wait_seconds=20))
    assert await asyncio.wait_for(older, 2) == []
    await ask(fleet, agent, Inspect())
    await fleet.sign()
    assert len(await asyncio.wait_for(newer, 2)) == 1


async def test_waiting_holds_no_connection(fleet: Fleet):
    agents = [await fleet.enrolled() for _ in range(30)]
    await fleet.sign()
    for agent in agents:
        await agent.claim()
    waiting = [asyncio.create_task(agent.claim(wait_seconds=3)) for agent in agents]
    await asyncio.sleep(0.3)
    assert fleet.db.in_use["writes"] == 0
    assert fleet.db.in_use["reads"] <= 1, "the one question a second, for all of them"
    assert await fleet.node(agents[0])
    fleet.waiters.close()
    assert await asyncio.gather(*waiting) == [[]] * 30
    fleet.waiters._closed = False


def test_every_task_type_is_delivered_twice_below() -> None:
    assert {type(task) for task, _ in EVERY_TYPE} == set(TASK_TYPES.values())


@pytest.mark.parametrize(("task", "answer"), EVERY_TYPE, ids=lambda value: getattr(value, "TYPE", ""))
async def test_every_type_delivered_twice_and_told_of_twice_has_one_outcome(
    fleet: Fleet, task: Any, answer: dict[str, Any]
):
    agent = await fleet.ready()
    task_id = await ask(fleet, agent, task)
    await fleet.sign()
    [first] = await agent.claim()
    agent.next_sequence = first.sequence
    [again] = await agent.claim()
    assert first == again
    result = answer or ({"topology": agent.topology()} if isinstance(task, Inspect) else agent.health())
    report = {"outcome": "done", "ended_at": NOW, "result": result}
    said = [found(await agent.say(f"/tasks/{task_id}/result", report), 200) for _ in range(3)]
    assert said == [{"task_id": str(task_id), "state": "done"}] * 3
    assert len(await fleet.events("task.ended", task_id)) == 1
    agent.next_sequence = first.sequence + 1
    assert await agent.claim() == []


# cancelling, deadlines -----------------------------------------------------------------------------------------------
async def test_before_it_is_fetched_a_task_is_cancelled_at_once(fleet: Fleet):
    agent = await fleet.ready()
    task_id = await ask(fleet, agent, Inspect())
    await fleet.sign()
    said = await fleet.order(f"/tasks/{task_id}/cancel", {"reason": "not wanted"}, 200)
    assert said["state"] == "cancelled"
    assert await agent.claim() == []
    assert refusal(await fleet.city.ask(fleet.admin, "POST", f"/tasks/{task_id}/cancel", {"reason": "again"})) == (
        409,
        "task_ended",
    )


async def test_after_that_its_node_is_asked_once_and_its_report_says_what_came_of_it(fleet: Fleet):
    agent = await fleet.ready()
    task_id = await ask(fleet, agent, Inspect())
    await fleet.sign()
    await agent.claim()
    waiting = asyncio.create_task(agent.say("/claim", {"next_sequence": agent.next_sequence, "wait_seconds": 10}))
    await asyncio.sleep(0.1)
    said = await fleet.order(f"/tasks/{task_id}/cancel", {"reason": "not wanted"}, 200)
    assert (said["state"], said["cancel_requested"]) == ("delivered", True)
    assert found(await asyncio.wait_for(waiting, 2), 200)["cancelled"] == [str(task_id)]
    quiet = time.monotonic()
    found(await agent.say("/claim", {"next_sequence": agent.next_sequence, "wait_seconds": 1}), 200)
    assert time.monotonic() - quiet > 0.9, "an agent that knows is not told again and again"
    found(await agent.report(task_id, "cancelled", reason="stopped"), 200)
    assert await state(fleet, task_id) == "cancelled"


@pytest.mark.parametrize("waits_as", list(LIFE.deadlines()))
async def test_whatever_a_node_does_not_tell_a_deadline_ends(fleet: Fleet, superuser: Any, waits_as: str):
    agent = await fleet.ready()
    task_id = await ask(fleet, agent, Inspect())
    if waits_as != "queued":
        await fleet.sign()
    if waits_as in ("delivered", "running"):
        await agent.claim()
    if waits_as == "running":
        found(await agent.say(f"/tasks/{task_id}/phases", {"phases": [{"name": "begun", "at": NOW}]}), 200)
    assert await state(fleet, task_id) == waits_as
    await handlers.tasks_overdue(fleet.city.parts)
    assert await state(fleet, task_id) == waits_as
    await superuser.execute("UPDATE tasks SET due_at = now() - interval '1 second' WHERE id = $1", task_id)
    await handlers.tasks_overdue(fleet.city.parts)
    expected = LIFE.deadlines()[waits_as][1]  # type: ignore[index] # a state's text is the state
    assert await state(fleet, task_id) == expected
    assert len(await fleet.events("task.ended", task_id)) == 1
    if waits_as in ("delivered", "running"):
        late = await agent.report(task_id, result={"topology": agent.topology()})
        assert found(late, 200)["state"] == "timed_out", "it had been given up; what it says is kept"
        assert len(await fleet.events("task.reported_late", task_id)) == 1
        assert (await fleet.city.get(fleet.admin, f"/tasks/{task_id}"))["result"] is not None


async def test_a_task_outlived_is_not_handed_over(fleet: Fleet, superuser: Any):
    agent = await fleet.ready()
    task_id = await ask(fleet, agent, Inspect())
    await fleet.sign()
    await superuser.execute("UPDATE tasks SET expires_at = now() - interval '1 second' WHERE id = $1", task_id)
    assert await agent.claim() == []


async def test_a_node_has_only_so_many_unfinished_tasks(fleet: Fleet, monkeypatch: pytest.MonkeyPatch):
    agent = await fleet.enrolled()
    monkeypatch.setattr(store, "MAX_OPEN", 5)
    for _ in range(3):
        await fleet.order(f"/nodes/{agent.id}/inspect")
    assert refusal(await fleet.city.ask(fleet.admin, "POST", f"/nodes/{agent.id}/inspect")) == (409, "task_queue_full")


# keys ----------------------------------------------------------------------------------------------------------------
async def test_a_key_follows_another_only_by_its_word_and_both_are_believed_for_a_while(fleet: Fleet, superuser: Any):
    agent = await fleet.ready()
    stranger = TaskSigner(os.urandom(32))
    async with fleet.db.transaction(EVERYTHING, "test") as tx:
        with pytest.raises(service.KeyRefused):
            await service.key_ensure(tx, stranger)
    old, new = fleet.signer, TaskSigner(os.urandom(32), previous=fleet.signer)
    for _ in range(2):
        async with fleet.db.transaction(EVERYTHING, "test") as tx:
            assert await service.key_ensure(tx, new)
            assert await service.key_ensure(tx, old), "workers are replaced one by one"
    trust = found(await agent.say("/trust", method="GET"), 200)
    assert [key["key_id"] for key in trust["task_keys"]] == [old.key_id, new.key_id]
    payload, signed_by = dsse.unseal(
        trust["key_statements"][-1].encode(), STATEMENT_TYPE, {old.key_id: _public(old.public_key)}
    )
    statement = msgspec.json.decode(payload, type=KeyStatement)
    assert (statement.key_id, statement.public_key, signed_by) == (new.key_id, new.public_key, old.key_id)
    await superuser.execute("UPDATE task_keys SET valid_until = now() WHERE key_id = $1", old.key_id)
    async with fleet.db.transaction(EVERYTHING, "test") as tx:
        assert not await service.key_ensure(tx, old)
    fleet.signer = new
    await ask(fleet, agent, Inspect())
    await fleet.sign()
    assert len(await agent.claim()) == 1


async def test_lists_tell_of_tasks_newest_first_and_their_story(fleet: Fleet):
    agent = await fleet.ready()
    subject = new_id()
    made = []
    for _ in range(3):
        made.append(await ask(fleet, agent, Inspect(), subject_id=subject))
        await asyncio.sleep(0.002)
    page = await fleet.city.get(fleet.admin, "/tasks", subject_id=str(subject), limit=2)
    assert [task["id"] for task in page["items"]] == [str(made[2]), str(made[1])]
    rest = await fleet.city.get(fleet.admin, "/tasks", subject_id=str(subject), limit=2, cursor=page["next_cursor"])
    assert [task["id"] for task in rest["items"]] == [str(made[0])]
    assert rest["next_cursor"] is None


def _public(text: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(base64.b64decode(text))
