"""Versions of the agent: uploaded in parts, published when they are what was said, handed only to who was told."""

import base64
import hashlib
import os
from typing import Any
from uuid import UUID

import httpx
import pytest

from gpuaas.contracts.http.artifacts import PART_BYTES
from gpuaas.domains.nodes.artifacts import service
from gpuaas.domains.nodes.artifacts.handlers import artifacts_overdue
from gpuaas.kit.ids import new_id
from gpuaas.ports.objects import Objects
from tests.support.fleet import EVERYTHING, Agent, Fleet
from tests.support.live import OBJECTS
from tests.support.people import found, refusal


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


async def begun(fleet: Fleet, content: bytes, **changed: Any) -> Any:
    said = {"version": f"v{new_id().hex}", "digest": digest_of(content), "size": len(content), **changed}
    return await fleet.city.made(fleet.admin, "/agent-artifacts", said)


async def upload(fleet: Fleet, artifact: Any, number: int, content: bytes) -> httpx.Response:
    body = {"content": base64.b64encode(content).decode()}
    return await fleet.city.ask(fleet.admin, "PUT", f"/agent-artifacts/{artifact['id']}/parts/{number}", body)


async def publish(fleet: Fleet, artifact: Any) -> httpx.Response:
    return await fleet.city.ask(fleet.admin, "POST", f"/agent-artifacts/{artifact['id']}/publish")


async def published(fleet: Fleet, content: bytes = b"an agent", **changed: Any) -> Any:
    artifact = await begun(fleet, content, **changed)
    for number, start in enumerate(range(0, len(content), PART_BYTES), start=1):
        found(await upload(fleet, artifact, number, content[start : start + PART_BYTES]), 200)
    return found(await publish(fleet, artifact), 200)


async def told(fleet: Fleet, agent: Agent, artifact: Any) -> UUID:
    """The task by which the node was told to become it, handed over."""
    order = await fleet.order(f"/nodes/{agent.id}/agent-update", {"version": artifact["version"]})
    await fleet.sign()
    await agent.claim()
    return UUID(order["id"])


async def fetch(agent: Agent, artifact: Any) -> httpx.Response:
    return await agent.say(f"/artifacts/{artifact['id']}", method="GET")


async def test_a_large_version_is_uploaded_in_parts_and_fetched_whole(fleet: Fleet):
    content = os.urandom(2 * PART_BYTES + 17)
    artifact, agent = await published(fleet, content), await fleet.ready()
    assert (artifact["state"], artifact["received"]) == ("published", len(content))
    await told(fleet, agent, artifact)
    answer = await fetch(agent, artifact)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.content == content


async def test_the_signed_order_names_the_digest(fleet: Fleet):
    artifact, agent = await published(fleet), await fleet.ready()
    await fleet.order(f"/nodes/{agent.id}/agent-update", {"version": artifact["version"]})
    await fleet.sign()
    [order] = await agent.claim()
    assert order.type == "agent.update"
    assert artifact["digest"] in bytes(order.arguments).decode()


async def test_a_node_fetches_only_what_a_task_in_its_hands_names(fleet: Fleet):
    artifact, agent, other = await published(fleet), await fleet.ready(), await fleet.ready()
    absent = {"id": str(new_id())}
    refused = [await fetch(agent, artifact)]
    order = await fleet.order(f"/nodes/{agent.id}/agent-update", {"version": artifact["version"]})
    refused.append(await fetch(agent, artifact))  # not handed over yet
    await fleet.sign()
    await agent.claim()
    assert (await fetch(agent, artifact)).status_code == 200
    refused += [await fetch(other, artifact), await fetch(agent, absent)]
    result = {"version": artifact["version"], "rolled_back": False}
    found(await agent.report(UUID(order["id"]), result=result), 200)
    refused.append(await fetch(agent, artifact))
    bodies = {
        (answer.status_code, answer.json()["error"]["code"], answer.json()["error"]["message"]) for answer in refused
    }
    assert bodies == {(404, "artifact_missing", "There is no such artifact.")}


async def test_what_was_uploaded_must_be_what_was_said(fleet: Fleet):
    content = os.urandom(PART_BYTES + 5)
    artifact = await begun(fleet, content)
    assert refusal(await publish(fleet, artifact)) == (409, "artifact_damaged")
    found(await upload(fleet, artifact, 1, os.urandom(PART_BYTES)), 200)
    found(await upload(fleet, artifact, 2, content[PART_BYTES:]), 200)
    assert refusal(await publish(fleet, artifact)) == (409, "artifact_damaged")
    found(await upload(fleet, artifact, 1, content[:PART_BYTES]), 200)
    assert found(await publish(fleet, artifact), 200)["state"] == "published"


@pytest.mark.parametrize(("number", "size"), [(1, PART_BYTES - 3), (2, 6), (2, 3), (3, 3), (512, 3)])
async def test_a_part_has_the_size_its_place_says(fleet: Fleet, number: int, size: int):
    artifact = await begun(fleet, b"x" * (PART_BYTES + 5))
    assert refusal(await upload(fleet, artifact, number, b"y" * size)) == (422, "request_invalid")


async def test_content_that_is_not_base64_or_too_large_is_refused(fleet: Fleet):
    artifact = await begun(fleet, b"x" * (PART_BYTES + 5))
    path = f"/agent-artifacts/{artifact['id']}/parts/1"
    for content, said in (("abcde", (422, "request_invalid")), ("*" * 8, (422, "request_invalid"))):
        assert refusal(await fleet.city.ask(fleet.admin, "PUT", path, {"content": content})) == said
    huge = {"content": base64.b64encode(b"x" * (PART_BYTES + 4096)).decode()}
    assert refusal(await fleet.city.ask(fleet.admin, "PUT", path, huge)) == (413, "body_too_large")


async def test_what_is_published_cannot_be_written_over(fleet: Fleet):
    artifact = await published(fleet, b"the true one")
    assert refusal(await upload(fleet, artifact, 1, b"a false one!")) == (409, "state_move_refused")
    assert refusal(await publish(fleet, artifact)) == (409, "state_move_refused")
    agent = await fleet.ready()
    await told(fleet, agent, artifact)
    assert (await fetch(agent, artifact)).content == b"the true one"


async def test_parts_replaced_between_the_look_and_the_publishing_are_not_published(fleet: Fleet):
    artifact = await begun(fleet, b"one")
    found(await upload(fleet, artifact, 1, b"one"), 200)
    objects = fleet.city.parts.get(Objects)  # type: ignore[type-abstract] # the part is whatever implements it
    verified = await service.artifact_verify(fleet.db, objects, UUID(artifact["id"]))
    found(await upload(fleet, artifact, 1, b"two"), 200)
    with pytest.raises(Exception, match="not the file"):
        async with fleet.db.transaction(EVERYTHING, "test") as tx:
            await service.artifact_publish(tx, UUID(artifact["id"]), verified)


async def test_a_version_is_published_once_and_again_after_it_was_retired(fleet: Fleet):
    version = f"v{new_id().hex}"
    late = await begun(fleet, b"late", version=version)
    found(await upload(fleet, late, 1, b"late"), 200)
    first = await published(fleet, version=version)
    assert refusal(await publish(fleet, late)) == (409, "artifact_version_taken")
    again = {"version": version, "digest": digest_of(b"x"), "size": 1}
    assert refusal(await fleet.city.ask(fleet.admin, "POST", "/agent-artifacts", again)) == (
        409,
        "artifact_version_taken",
    )
    await fleet.order(f"/agent-artifacts/{first['id']}/retire", {"reason": "old"}, 200)
    agent = await fleet.ready()
    refused = await fleet.city.ask(fleet.admin, "POST", f"/nodes/{agent.id}/agent-update", {"version": version})
    assert refusal(refused) == (404, "artifact_missing")
    found(await publish(fleet, late), 200)
    await told(fleet, agent, late)


async def test_no_larger_than_the_policy_says(fleet: Fleet):
    fleet.city.policy.values["nodes.agent_artifact_max_mib"] = 1
    try:
        wanted = {"version": "large", "digest": digest_of(b""), "size": (1 << 20) + 1}
        answer = await fleet.city.ask(fleet.admin, "POST", "/agent-artifacts", wanted)
        assert refusal(answer) == (422, "artifact_too_large")
    finally:
        del fleet.city.policy.values["nodes.agent_artifact_max_mib"]


async def test_the_bytes_are_not_in_the_audit_log(fleet: Fleet):
    content = os.urandom(3000)
    artifact = await published(fleet, content)
    async with fleet.db.read(EVERYTHING) as tx:
        rows = await tx.rows("SELECT details FROM audit_log WHERE subject_id = $1", UUID(artifact["id"]))
    assert len(rows) == 3
    assert not [row for row in rows if base64.b64encode(content).decode()[:40] in row["details"]]


async def test_an_upload_nobody_finishes_is_given_up_and_retired_bytes_are_deleted(fleet: Fleet, superuser: Any):
    artifact, kept = await begun(fleet, b"given up"), await published(fleet, b"still offered")
    found(await upload(fleet, artifact, 1, b"given up"), 200)
    late = "UPDATE agent_artifacts SET due_at = now() - interval '1 second' WHERE id = $1"
    await superuser.execute(late, UUID(artifact["id"]))
    await artifacts_overdue(fleet.city.parts)
    assert refusal(await upload(fleet, artifact, 1, b"given up")) == (409, "state_move_refused")
    objects = fleet.city.parts.get(Objects)  # type: ignore[type-abstract] # the part is whatever implements it
    assert list(folder(artifact).iterdir())
    while await service.bytes_delete(fleet.db, objects):
        pass
    assert list(folder(artifact).iterdir()), "somebody may still be fetching it"
    await superuser.execute("UPDATE agent_artifacts SET state_since = state_since - interval '2 days'")
    while await service.bytes_delete(fleet.db, objects):
        pass
    assert not list(folder(artifact).iterdir())
    assert list(folder(kept).iterdir())


async def test_bytes_that_were_lost_are_said_to_be_away(fleet: Fleet):
    artifact, agent = await published(fleet), await fleet.ready()
    await told(fleet, agent, artifact)
    for file in folder(artifact).iterdir():
        file.unlink()
    assert refusal(await fetch(agent, artifact)) == (503, "dependency_unavailable")


def folder(artifact: Any) -> Any:
    return OBJECTS / "agent-artifacts" / artifact["id"]
