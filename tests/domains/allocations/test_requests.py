"""Asking for GPUs, and giving them back, through the API."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from uuid import UUID

import msgspec
import pytest

from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.contracts.http.flows import FlowKind
from gpuaas.domains.allocations.connections.service import accounts_reseal
from gpuaas.domains.allocations.queue import service as queue
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.sealing import FieldSealer
from gpuaas.kit.ids import SkuId, new_id
from gpuaas.ports.policy import PolicyReader
from tests.support.fleet import EVERYTHING
from tests.support.ground import SSH_KEY, Ground, Machine, ground_of
from tests.support.people import found, refusal


@pytest.fixture(scope="module")
async def ground(db: Database) -> AsyncIterator[Ground]:
    async with ground_of(db, machines=0) as made:
        yield made


@pytest.fixture
async def machine(ground: Ground) -> Machine:
    async with ground.db.transaction(EVERYTHING, "test") as tx:  # nobody is left over from the test before
        await tx.run("UPDATE allocations SET state = 'failed', ended_at = now() WHERE state = 'requested'")
    return await ground.anew()


async def test_asked_for_it_is_reserved_at_once_and_active_when_proven(ground: Ground, machine: Machine) -> None:
    made = found(await ground.ask(gpu_count=2, name="training-run", tags=["nlp"]), 202)
    assert (made["state"], made["gpu_count"], made["micros_per_hour"]) == ("provisioning", 2, 7_200_000)
    assert made["due_at"]
    assert "health check" in made["next_action"]
    await ground.run()
    shown = found(await ground.say("GET", f"/{made['id']}"), 200)
    assert (shown["state"], len(shown["gpus"]), shown["degraded"]) == ("active", 2, False)
    assert {gpu["numa"] for gpu in shown["gpus"]} == {shown["gpus"][0]["numa"]}
    [connection] = shown["connections"]
    assert connection["ssh_command"].startswith("ssh ")
    assert shown["expires_at"] is not None

    timeline = found(await ground.say("GET", f"/{made['id']}/timeline"), 200)
    told = [moment["phase"] for moment in timeline["moments"] if moment["source"] == "control"]
    assert told == ["reserved", "held", "leased", "account", "proven", "active"]
    assert any(moment["phase"].startswith("node.health") for moment in timeline["moments"])
    assert all(moment["seconds"] is not None for moment in timeline["moments"][:-1])

    done = found(await ground.say("GET", f"/{made['id']}/tasks"), 200)
    assert [task["type"] for task in done["items"]] == ["slot.lease", "user.provision", "node.health"]

    found(await ground.say("POST", f"/{made['id']}/release", {"reason": "finished"}), 202)
    await ground.run()
    ended = found(await ground.say("GET", f"/{made['id']}"), 200)
    assert (ended["state"], ended["release_reason"], ended["connections"]) == ("released", "finished", [])
    [certificate_id] = ended["certificate_ids"]
    path = f"/projects/{ground.project_id}/certificates/{certificate_id}"
    certificate = await ground.fleet.city.get(ground.owner, path)
    keys = await ground.fleet.city.get(ground.owner, "/certificate-keys")
    assert certificate["key_id"] in {key["key_id"] for key in keys["keys"]}
    assert await ground.leftovers() == []


async def test_how_to_log_in_is_sealed_at_rest_and_still_opens_after_a_rotation(
    ground: Ground, machine: Machine
) -> None:
    made = await ground.active(1)
    sealer = ground.parts.get(FieldSealer)
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        box = await tx.value("SELECT connection_sealed FROM allocations WHERE id = $1", made.id)
        assert b"ssh-ed25519" not in box
        assert b"127.0.0.1" not in box
        fresh = await sealer.rotate(tx)
    before = found(await ground.say("GET", f"/{made.id}"), 200)["connections"]
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        assert await accounts_reseal(tx, sealer) is None, "that was all"
        box = await tx.value("SELECT connection_sealed FROM allocations WHERE id = $1", made.id)
        assert sealer.key_of(box) == fresh
    assert found(await ground.say("GET", f"/{made.id}"), 200)["connections"] == before != []
    other = await ground.active(1)
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        with pytest.raises(ValueError, match="cannot open"):
            await sealer.unseal(tx, box, f"allocations.connection:{other.id}")
    for one in (made, other):
        await ground.release(one.id)
    await ground.run()


@pytest.mark.parametrize(
    ("wanted", "status", "code", "says"),
    [
        ({"gpu_count": 3}, 422, "allocation_refused", "1, 2, 4, 8 GPUs"),
        ({"gpu_count": 0}, 422, "request_invalid", ""),
        ({"gpu_count": -1}, 422, "request_invalid", ""),
        ({"gpu_count": "2"}, 422, "request_invalid", ""),
        ({"gpu_count": 10**30}, 422, "request_invalid", ""),
        ({"node_count": 65}, 422, "request_invalid", ""),
        ({"sku_id": "not-an-id"}, 422, "request_invalid", ""),
        ({"sku_id": "00000000-0000-7000-8000-000000000000"}, 404, "sku_missing", ""),
        ({"ssh_keys": []}, 422, "ssh_key_required", "gpuaas keys add"),
        ({"ssh_keys": ["ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQ=="]}, 422, "ssh_key_invalid", ""),
        ({"ssh_keys": [f"{SSH_KEY}\nssh-ed25519 AAAA evil"]}, 422, "ssh_key_invalid", ""),
        ({"ssh_keys": [f'command="sh" {SSH_KEY}']}, 422, "ssh_key_invalid", ""),
        ({"ssh_key_ids": ["00000000-0000-7000-8000-000000000000"]}, 422, "ssh_key_missing", ""),
        ({"lease_hours": 721}, 409, "allocation_lifetime", "720 hours"),
        ({"lease_hours": 0}, 422, "request_invalid", ""),
        ({"name": "Not A Name"}, 422, "request_invalid", ""),
        ({"name": "x" * 64}, 422, "request_invalid", ""),
        ({"surprise": 1}, 422, "request_invalid", ""),
        ({"node_count": 2}, 409, "capacity_missing", "if_full=queue"),
    ],
)
async def test_what_cannot_be_asked_for_is_refused_and_leaves_nothing(
    ground: Ground, machine: Machine, wanted: dict[str, object], status: int, code: str, says: str
) -> None:
    async with ground.db.read(EVERYTHING) as tx:
        before = await tx.value("SELECT count(*) FROM allocations")
    answer = await ground.ask(**wanted)
    got = refusal(answer)
    assert got in {(status, code), (400 if status == 422 else status, code)}, answer.text
    assert says in answer.text
    async with ground.db.read(EVERYTHING) as tx:
        assert await tx.value("SELECT count(*) FROM allocations") == before
    assert await ground.leftovers() == []


async def test_a_name_is_taken_while_its_allocation_lives(ground: Ground, machine: Machine) -> None:
    made = found(await ground.ask(name="mine"), 202)
    assert refusal(await ground.ask(name="mine")) == (409, "allocation_name_taken")
    found(await ground.say("POST", f"/{made['id']}/release", {}), 202)
    await ground.run()
    found(await ground.ask(name="mine"), 202)
    await ground.run()


async def test_two_hundred_ask_for_eight_gpus_and_eight_are_held(ground: Ground, machine: Machine) -> None:
    async def one(n: int) -> str:
        answer = await ground.ask(if_full="queue" if n % 2 else "refuse")
        while (
            answer.status_code == 503
        ):  # eight connections for two hundred, on a busy machine: nothing was done for it
            await asyncio.sleep(int(answer.headers["Retry-After"]))
            answer = await ground.ask(if_full="queue" if n % 2 else "refuse")
        said = answer.json()
        return str(said["state"] if answer.status_code == 202 else said["error"]["code"])

    came = Counter(await asyncio.gather(*(one(n) for n in range(200))))
    assert came["provisioning"] == 8, came
    assert set(came) <= {"provisioning", "requested", "capacity_missing", "quota_exceeded", "rate_limited"}, came
    assert sum(came.values()) == 200
    async with ground.db.read(EVERYTHING) as tx:
        held = await tx.value("SELECT count(*) FROM slot_holds WHERE node_id = $1 AND ended_at IS NULL", machine.id)
    assert held == 8
    assert await ground.leftovers() == []


async def test_a_release_and_a_forced_release_at_once_end_as_one_release(ground: Ground, machine: Machine) -> None:
    """Five hundred times: the row is put back to active each time, and each pair races anew."""
    made = await ground.active(1)
    kind, outcomes = FlowKind.ALLOCATION_RELEASE, Counter[tuple[int, ...]]()
    for _ in range(500):
        owner, admin = await asyncio.gather(
            ground.say("POST", f"/{made.id}/release", {"reason": "done with it"}),
            ground.fleet.city.ask(
                ground.fleet.admin, "POST", f"/allocations/{made.id}/force-release", {"reason": "maintenance"}
            ),
        )
        outcomes[tuple(sorted((owner.status_code, admin.status_code)))] += 1
        lost = owner if owner.status_code == 409 else admin
        assert lost.json()["error"]["code"] in ("allocation_releasing", "state_move_refused"), lost.text
        async with ground.db.transaction(EVERYTHING, "test") as tx:
            begun = await tx.value(
                "SELECT count(*) FROM flow_runs WHERE subject_id = $1 AND kind = $2 AND ended_at IS NULL", made.id, kind
            )
            assert begun == 1
            await tx.run(
                "UPDATE flow_runs SET state = 'done', ended_at = now() WHERE subject_id = $1 AND kind = $2 "
                "AND ended_at IS NULL",
                made.id,
                kind,
            )
            await tx.run("UPDATE allocations SET state = 'active', due_at = NULL WHERE id = $1", made.id)
    assert outcomes == {(202, 409): 500}
    await ground.release(made.id)
    await ground.run()
    assert (await ground.read(made.id)).state is AllocationState.RELEASED


async def test_renewed_it_lasts_longer_but_not_beyond_its_end(ground: Ground, machine: Machine) -> None:
    made = await ground.active(1)
    renewed = found(await ground.say("POST", f"/{made.id}/renew", {"lease_hours": 48}), 200)
    assert made.expires_at is not None
    assert renewed["expires_at"] > made.expires_at.isoformat()
    async with ground.db.transaction(EVERYTHING, "test") as tx:
        await tx.run("UPDATE allocations SET ends_at = expires_at WHERE id = $1", made.id)
    assert refusal(await ground.say("POST", f"/{made.id}/renew", {"lease_hours": 49})) == (409, "allocation_lifetime")
    await ground.release(made.id)
    assert refusal(await ground.say("POST", f"/{made.id}/renew", {})) == (409, "allocation_not_active")
    await ground.run()


async def test_a_stranger_sees_nothing_of_it_and_a_viewer_not_how_to_log_in(ground: Ground, machine: Machine) -> None:
    made, city = await ground.active(1), ground.fleet.city
    path = f"/projects/{ground.project_id}/allocations/{made.id}"
    stranger, viewer = await city.person("eve"), await city.person("vera")
    for below in ("", "/timeline", "/timeline/live", "/tasks"):
        assert (await city.ask(stranger, "GET", path + below)).status_code == 404
    await city.join(ground.owner, str(ground.org_id), viewer, "viewer")
    shown = await city.get(viewer, path)
    assert (shown["state"], shown["connections"]) == ("active", [])
    assert (await city.ask(viewer, "POST", path + "/release", {})).status_code == 403
    elsewhere = await city.made(ground.owner, f"/orgs/{ground.org_id}/projects", {"name": f"p-{new_id().hex[-8:]}"})
    assert refusal(await city.ask(ground.owner, "GET", f"/projects/{elsewhere['id']}/allocations/{made.id}")) == (
        404,
        "allocation_missing",
    )
    await ground.release(made.id)
    await ground.run()


async def test_watched_live_it_tells_of_each_change_and_ends(ground: Ground, machine: Machine) -> None:
    made = found(await ground.ask(), 202)
    states: list[str] = []

    async def watch() -> None:
        url = f"/api/v1/projects/{ground.project_id}/allocations/{made['id']}/timeline/live"
        headers = {"authorization": f"Bearer {ground.owner.token}"}
        async with ground.fleet.city.client.stream("GET", url, headers=headers) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            told = [line[6:] async for line in answer.aiter_lines() if line.startswith("data: ") and line != "data: {}"]
        states.extend(msgspec.json.decode(line)["state"] for line in told)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0.05)
    await ground.run()
    found(await ground.say("POST", f"/{made['id']}/release", {}), 202)
    await ground.run()
    await asyncio.wait_for(watching, 20)
    assert states[-1] == "released"


async def test_an_estimate_says_what_it_costs_and_reserves_nothing(ground: Ground, machine: Machine) -> None:
    path = f"/projects/{ground.project_id}/allocation-estimate"
    said = await ground.fleet.city.get(ground.owner, path, sku_id=str(ground.sku_id), gpu_count=4, lease_hours=10)
    assert (said["micros_per_hour"], said["micros_for_lease"], said["fits_now"]) == (14_400_000, 144_000_000, True)
    said = await ground.fleet.city.get(ground.owner, path, sku_id=str(ground.sku_id), gpu_count=8, node_count=3)
    assert said["fits_now"] is False
    assert said["summary"]
    assert await ground.leftovers() == []


async def test_the_project_of_a_live_allocation_is_not_deleted(ground: Ground, machine: Machine) -> None:
    made = await ground.active(1)
    answer = await ground.fleet.city.ask(ground.owner, "DELETE", f"/projects/{ground.project_id}")
    assert answer.status_code == 409, answer.text
    await ground.release(made.id)
    await ground.run()
    assert (await ground.read(made.id)).state is AllocationState.RELEASED


async def test_a_request_is_told_once_and_once_more_when_its_gpus_are_held_whether_it_waited_or_not(
    ground: Ground, machine: Machine
) -> None:
    first = found(await ground.ask(gpu_count=8), 202)
    waiting = found(await ground.ask(gpu_count=8, if_full="queue"), 202)
    await ground.run()
    await ground.release(first["id"])
    await ground.run()
    await queue.queue_pass(ground.db, ground.parts.get(PolicyReader), SkuId(ground.sku_id))
    await ground.run()
    for one, queued in ((first, False), (waiting, True)):
        async with ground.db.read(EVERYTHING) as tx:
            told = await tx.rows(
                "SELECT name, payload->>'queued' AS queued FROM outbox WHERE subject_id = $1 AND name = ANY($2) "
                "ORDER BY id",
                UUID(one["id"]),
                ["allocation.requested", "allocation.reserved"],
            )
        assert [(row["name"], row["queued"]) for row in told] == [
            ("allocation.requested", str(queued).lower()),
            ("allocation.reserved", None),
        ]
    await ground.release(waiting["id"])
    await ground.run()


async def test_who_lost_an_allocation_by_force_reads_in_the_audit_log_who_took_it(
    ground: Ground, machine: Machine
) -> None:
    made = await ground.active(1)
    path = f"/allocations/{made.id}/force-release"
    found(await ground.fleet.city.ask(ground.fleet.admin, "POST", path, {"reason": "maintenance"}), 202)
    await ground.run()
    entries = await ground.fleet.city.get(ground.owner, f"/orgs/{ground.org_id}/audit")
    forced = [entry for entry in entries["items"] if entry["action"] == "allocation.force_release"]
    taken = [entry for entry in forced if str(made.id) in str(entry)]
    assert [(entry["actor_kind"], entry["org_id"]) for entry in taken] == [("user", str(ground.org_id))]
    assert "maintenance" in str(taken[0]["details"])
