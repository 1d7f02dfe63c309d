"""Nodes as operators handle them, and the enrolment of their agents."""

from typing import Any

import pytest

from gpuaas.kit.ids import new_id
from tests.support.certificates import new_key, request_for
from tests.support.fleet import EVERYTHING, SKU, Agent, Fleet
from tests.support.people import at_once, found, refusal


async def enrol(fleet: Fleet, token: str, csr: str = "", key: str = "") -> Any:
    body = {"token": token, "csr": csr or request_for(new_key()), "agent_version": "0.1.0"}
    return await fleet.city.ask(None, "POST", "/nodes/enrol", body, key=key)


async def test_the_printed_command_enrols_a_node_once(fleet: Fleet):
    made = await fleet.created(labels={"rack": "r7"})
    assert made["command"] == f"gpuaas agent enrol --url https://gpuaas.test --token {made['token']}"
    assert (made["node"]["state"], made["node"]["liveness"]) == ("enrolling", "new")
    enrolled = found(await enrol(fleet, made["token"]), 201)
    assert enrolled["node_id"] == made["id"]
    assert enrolled["agent_url"] == "https://agents.test"
    assert "BEGIN CERTIFICATE" in enrolled["certificate"]["certificate"]
    assert len(enrolled["trust"]["authorities"]) == 1
    assert refusal(await enrol(fleet, made["token"])) == (401, "bootstrap_token_refused")
    node = await fleet.node(made["id"])
    assert node["state"] == "active"
    tasks = await fleet.city.get(fleet.admin, "/tasks", node_id=made["id"])
    assert {task["type"] for task in tasks["items"]} == {"node.inspect", "node.health"}
    assert len(await fleet.events("node.enrolled", made["id"])) == 1


async def test_an_enrolment_whose_answer_was_lost_can_be_repeated_with_its_key(fleet: Fleet):
    made, csr, key = await fleet.created(), request_for(new_key()), new_id().hex
    first = found(await enrol(fleet, made["token"], csr, key), 201)
    again = await enrol(fleet, made["token"], csr, key)
    assert again.headers["idempotency-replayed"] == "true"
    assert found(again, 201) == first


async def test_twenty_who_have_the_token_are_one_node(fleet: Fleet):
    made = await fleet.created()
    answers = await at_once(*(enrol(fleet, made["token"]) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [201] + [401] * 19


async def test_enrolling_again_needs_an_operator_and_ends_what_was(fleet: Fleet):
    made = await fleet.created()
    found(await enrol(fleet, made["token"]), 201)
    again = await fleet.order(f"/nodes/{made['id']}/reenrol", {"reason": "a new disk"}, 201)
    async with fleet.db.read(EVERYTHING) as tx:
        live = await tx.value(
            "SELECT count(*) FROM certificates WHERE node_id = $1 AND revoked_at IS NULL", again["node"]["id"]
        )
    assert live == 0
    found(await enrol(fleet, again["token"]), 201)
    [first, second] = await fleet.events("node.enrolled", made["id"])
    assert (first["again"], second["again"]) == (False, True)


async def test_a_removed_nodes_token_makes_nothing_and_its_name_is_free(fleet: Fleet):
    made = await fleet.created(name="short-lived")
    assert refusal(
        await fleet.city.ask(
            fleet.admin, "POST", "/nodes", {"name": "short-lived", "region": "eu-1", "sku_id": fleet.sku_id}
        )
    ) == (409, "node_name_taken")
    found(await fleet.city.ask(fleet.admin, "DELETE", f"/nodes/{made['id']}"), 200)
    assert refusal(await enrol(fleet, made["token"])) == (401, "bootstrap_token_refused")
    assert refusal(await fleet.city.ask(fleet.admin, "GET", f"/nodes/{made['id']}")) == (404, "node_missing")
    await fleet.created(name="short-lived")


async def test_a_node_is_of_a_sku_that_exists(fleet: Fleet):
    answer = await fleet.city.ask(
        fleet.admin, "POST", "/nodes", {"name": "no-sku", "region": "eu-1", "sku_id": str(new_id())}
    )
    assert refusal(answer) == (404, "sku_missing")


@pytest.mark.parametrize("verb", ["disable", "remove"])
async def test_nobody_is_thrown_off_a_node(fleet: Fleet, verb: str):
    agent = await fleet.ready()

    async def ask() -> Any:
        if verb == "remove":
            return await fleet.city.ask(fleet.admin, "DELETE", f"/nodes/{agent.id}")
        return await fleet.city.ask(fleet.admin, "POST", f"/nodes/{agent.id}/disable", {"reason": "to be moved"})

    found(await agent.heartbeat(accounts=["gabc"]), 200)
    assert refusal(await ask()) == (409, "node_in_use")
    loaded = await fleet.city.ask(fleet.admin, "POST", f"/nodes/{agent.id}/check", {"load": True})
    assert refusal(loaded) == (409, "node_in_use")
    found(await agent.heartbeat(accounts=[]), 200)
    found(await ask(), 200)


async def test_wanting_what_is_wanted_already_changes_nothing(fleet: Fleet):
    agent = await fleet.ready()
    first = await fleet.order(f"/nodes/{agent.id}/cordon", {"reason": "a fan"}, 200)
    again = await fleet.order(f"/nodes/{agent.id}/cordon", {"reason": "a fan"}, 200)
    assert first["generation"] == again["generation"]
    back = await fleet.order(f"/nodes/{agent.id}/uncordon", status=200)
    assert (back["cordoned"], back["generation"]) == (False, first["generation"] + 1)


async def test_nodes_are_found_by_what_is_known_of_them(fleet: Fleet):
    mark = new_id().hex[-8:]
    sku = await fleet.city.made(fleet.admin, "/skus", SKU | {"name": f"sku-{mark}", "region": f"r-{mark}"})
    there = {"region": f"r-{mark}", "sku_id": sku["id"]}
    agent = await fleet.ready(labels={"rack": mark, "row": "1"}, **there)
    waiting = await fleet.created(labels={"rack": f"{mark}-b"}, **there)

    async def names(**query: str) -> set[str]:
        page = await fleet.city.get(fleet.admin, "/nodes", region=f"r-{mark}", limit=200, **query)
        return {node["id"] for node in page["items"]}

    ready, other = str(agent.id), waiting["id"]
    assert await names() == {ready, other}
    assert await names(state="active") == {ready}
    assert await names(label=f"rack={mark}") == {ready}
    assert await names(label="rack") == {ready, other}
    assert await names(label="row") == {ready}
    assert await names(liveness="new") == {other}
    assert await names(liveness="online") == {ready}
    assert await names(health="healthy") == {ready}
    assert await names(health="unchecked") == {other}
    assert await names(sku_id=sku["id"]) == {ready, other}
    assert await names(sku_id=str(new_id())) == set()


async def test_labels_and_tags_are_replaced_and_bounded(fleet: Fleet):
    made = await fleet.created(labels={"rack": "r1"}, tags=["spare"])
    path = f"/nodes/{made['id']}"
    changed = found(await fleet.city.ask(fleet.admin, "PATCH", path, {"labels": {"row": "2"}}), 200)
    assert (changed["labels"], changed["tags"]) == ({"row": "2"}, ["spare"])
    for bad in (
        {"labels": {f"k{n}": "v" for n in range(65)}},
        {"labels": {"a b": "v"}},
        {"labels": {"a": "v\n"}},
        {"tags": ["x"] * 65},
        {"tags": [""]},
        {"address": "http://x/;rm"},
        {"labels": {"a": 1}},
    ):
        assert (await fleet.city.ask(fleet.admin, "PATCH", path, bad)).status_code == 422


async def test_a_node_is_where_its_sku_is_sold(fleet: Fleet):
    """A tenant is told his SKU's region: that is where his machine has to be."""
    wanted = {"name": f"n-{new_id().hex[-12:]}", "region": "us-9", "sku_id": fleet.sku_id}
    answer = await fleet.city.ask(fleet.admin, "POST", "/nodes", wanted)
    assert refusal(answer) == (422, "request_invalid")
    assert answer.json()["error"]["details"] == [{"field": "region", "reason": "the SKU is sold in eu-1"}]


async def test_a_disabled_node_is_asked_nothing(fleet: Fleet):
    agent: Agent = await fleet.ready()
    await fleet.order(f"/nodes/{agent.id}/disable", {"reason": "sold"}, 200)
    for path, body in (("inspect", None), ("check", {}), ("reenrol", {"reason": "not now"})):
        answer = await fleet.city.ask(fleet.admin, "POST", f"/nodes/{agent.id}/{path}", body)
        assert refusal(answer) == (409, "state_move_refused")


# what must hold ------------------------------------------------------------------------------------------------------
BREAKS = {
    "invariant_14_tasks_move": "UPDATE tasks SET state = 'running', due_at = now() - interval '1 hour' WHERE id = $1",
    "invariant_15_task_sequence": "UPDATE tasks SET sequence = sequence + 100 WHERE id = $1",
    "invariant_15_one_result": "UPDATE tasks SET reported_by = gen_random_uuid() WHERE id = $1",
    "invariant_20_tasks_signed_while_valid": "UPDATE tasks SET issued_at = issued_at - interval '1 year' WHERE id = $1",
    "invariant_36_live_nodes_speak": "UPDATE node_heartbeats h SET seen_at = now() - interval '1 hour' "
    "FROM tasks t WHERE t.node_id = h.node_id AND t.id = $1",
    "invariant_37_one_gpu_one_node": """
        WITH twin AS (
            INSERT INTO nodes (id, name, region, sku_id, state)
            SELECT gen_random_uuid(), 'twin-' || left(md5(t.id::text), 20), n.region, n.sku_id, 'active'
            FROM tasks t JOIN nodes n ON n.id = t.node_id WHERE t.id = $1 RETURNING id
        )
        INSERT INTO slots (id, node_id, serial, gpu_index, address, vendor, model, memory_bytes, numa, iommu_group,
                           present, sku_id)
        SELECT gen_random_uuid(), twin.id, s.serial, s.gpu_index, s.address, s.vendor, s.model, s.memory_bytes, s.numa,
               s.iommu_group, true, s.sku_id
        FROM tasks t JOIN slots s ON s.node_id = t.node_id CROSS JOIN twin WHERE t.id = $1""",
    "invariant_37_slots_of_nodes": "UPDATE slots s SET node_id = gen_random_uuid() "
    "FROM tasks t WHERE t.node_id = s.node_id AND t.id = $1",
}


@pytest.mark.parametrize("view", BREAKS)
async def test_every_invariant_of_the_fleet_holds_and_can_break(fleet: Fleet, superuser: Any, view: str):
    agent = await fleet.ready()
    task_id = (await fleet.city.get(fleet.admin, "/tasks", node_id=str(agent.id)))["items"][0]["id"]
    await superuser.execute("SET app.org_id = '*'")
    about = f"SELECT count(*) FROM {view} WHERE subject = ANY($1)"
    subjects = [task_id, str(agent.id), *(slot["id"] for slot in (await fleet.slots(agent)).values())]
    assert await superuser.fetchval(about, subjects) == 0
    broken = superuser.transaction()
    await broken.start()
    await superuser.execute(BREAKS[view], task_id)
    assert await superuser.fetchval(about, subjects) > 0
    await broken.rollback()
    views = {
        row["viewname"]
        for row in await superuser.fetch(
            "SELECT viewname FROM pg_views WHERE viewname ~ '^invariant_(14_tasks|15|20_tasks|36|37)'"
        )
    }
    assert views == set(BREAKS)
