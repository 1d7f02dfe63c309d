"""The fleet and the catalogue by the command line, on the live API; faults on tap, on a simulated fleet's socket."""

import asyncio
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from gpuaas.contracts.simulation import ControlAnswer, ControlRequest, Do, NodeStatus
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.processes.cli.conftest import Superuser
from tests.support.terminal import Terminal

H200 = ("--vendor", "NVIDIA", "--model", "H200", "--memory", "141GB", "--gpus", "8", "--region", "eu-1")


def fresh(word: str) -> str:
    return f"{word}-{new_id().hex[-12:]}"


@pytest.fixture
async def sku(admin: Terminal) -> str:
    await admin.good("skus", "create", name := fresh("h200"), *H200, "--counts", "1,2,4,8", "--price", "3.50")
    return name


async def test_a_sku_is_made_priced_and_retired(admin: Terminal, sku: str):
    shown = await admin.good("skus", "show", sku)
    assert "3.50 USD per GPU-hour" in shown
    assert "8 × NVIDIA H200, 131 GiB" in shown
    assert "1, 2, 4, 8" in shown
    assert "3.199999 USD per GPU-hour" in await admin.good("skus", "price", sku, "3.199999")
    assert "3.199999 USD" in await admin.good("skus", "list", "--region", "eu-1")
    prices = await admin.rows("skus", "prices", sku)
    assert [price["micros_per_gpu_hour"] for price in prices] == [3_500_000, 3_199_999]
    await admin.good("skus", "price", sku, "9", "--from", f"{clock.now() + timedelta(days=30):%Y-%m-%d}")
    assert "3.199999 USD" in await admin.good("skus", "show", sku), "a price to come is not one yet"
    assert "retired" in await admin.good("skus", "retire", sku)
    assert "active" in await admin.good("skus", "update", sku, "--state", "active", "--title", "As before")


async def test_everybody_sees_what_can_be_had_but_only_operators_change_it(newcomer: Terminal):
    assert (await newcomer.run("skus", "list")).code == 0
    assert (await newcomer.run("skus", "create", fresh("x"), *H200, "--price", "1")).code == 4
    assert (await newcomer.run("nodes", "list")).code == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["skus", "create", "x", *H200, "--price", "3,50"], "not an amount of money"),
        (["skus", "create", "x", *H200, "--price", "0.0000001"], "not an amount of money"),
        (["skus", "create", "x", *H200, "--price", "1", "--counts", "1;2"], "not a list of numbers"),
        (["skus", "update", "x"], "Nothing to change"),
        (["nodes", "task", "seven"], "is not an id"),
        (["nodes", "update", "x"], "Nothing to change"),
        (["ops", "certificates", "revoke", "x", "--reason", "stolen"], "is not an id"),
    ],
)
async def test_a_wrong_value_is_told_before_anything_is_sent(terminal: Terminal, words: list[str], said: str):
    ran = await terminal.run(*words, "--url", "http://127.0.0.1:1")
    assert ran.code == 2, ran.said
    assert said in ran.err


async def test_a_new_node_comes_with_one_command_that_is_shown_once(admin: Terminal, sku: str):
    name = fresh("gpu")
    made = await admin.run("nodes", "create", name, "--sku", sku, "--label", "rack=r12", "--tag", "spare")
    assert made.code == 0, made.said
    commands = re.findall(r"^gpuaas agent enrol --url \S+ --token (\S+)$", made.out, re.MULTILINE)
    assert len(commands) == 1
    assert "not shown again" in made.err
    for words in (("list",), ("show", name), ("show", name, "-o", "json")):
        told = await admin.run("nodes", *words)
        assert name in told.out
        assert commands[0] not in told.said
    shown = await admin.good("nodes", "show", name)
    for part in ("enrolling", "eu-1", "rack=r12", "spare", sku, "the node has never spoken"):
        assert part in shown
    assert (await admin.run("nodes", "create", name, "--sku", sku)).code == 6
    again = (await admin.run("nodes", "reenrol", name, "--reason", "lost the note", "--yes", "-o", "json")).json
    assert again["token"] != commands[0]
    assert again["token"] in again["command"]


async def test_a_node_is_cordoned_drained_filtered_and_removed(admin: Terminal, sku: str):
    await admin.good("nodes", "create", name := fresh("gpu"), "--sku", sku)
    assert "enrolling, cordoned" in await admin.good("nodes", "cordon", name, "--reason", "new cables")
    assert "cordoned" not in (await admin.good("nodes", "uncordon", name)).split("why not")[0]
    assert "drained" in await admin.good("nodes", "drain", name, "--reason", "new cables")
    assert "drained" not in (await admin.good("nodes", "undrain", name)).split("why not")[0]
    await admin.good("nodes", "update", name, "--label", "rack=r7")
    assert [node["name"] for node in await admin.rows("nodes", "list", "--sku", sku, "--label", "rack=r7")] == [name]
    nobody = await admin.run("nodes", "list", "--sku", sku, "--liveness", "online")
    assert (nobody.code, nobody.out) == (0, "")
    assert "No node is so." in nobody.err
    asked = await admin.run("nodes", "remove", name)
    assert asked.code == 2
    assert "--yes" in asked.err
    assert f"Node {name} is removed." in await admin.good("nodes", "remove", name, "--yes")
    gone = await admin.run("nodes", "show", name)
    assert gone.code == 5
    assert "gpuaas nodes list" in gone.err


async def test_what_a_node_that_never_spoke_has_is_empty_and_says_so(admin: Terminal, sku: str):
    await admin.good("nodes", "create", name := fresh("gpu"), "--sku", sku)
    for words, said in (
        (("nodes", "slots", name), "No GPU is known yet"),
        (("nodes", "tasks", name), "No task is so."),
        (("nodes", "health", name), "Nothing was checked yet."),
        (("ops", "node-metrics", name), "has sent nothing"),
        (("ops", "certificates", "list", "--node", name), "No certificate was given yet"),
    ):
        ran = await admin.run(*words)
        assert (ran.code, ran.out) == (0, ""), ran.said
        assert said in ran.err
    refused = await admin.run("nodes", "quarantine", name, "3", "--reason", "smells burnt")
    assert refused.code == 5
    assert "has no GPU '3'" in refused.err
    assert (await admin.run("nodes", "task", str(new_id()))).code == 5


async def test_fleet_health_names_what_cannot_be_sold_and_ends_with_1(admin: Terminal, sku: str):
    await admin.good("nodes", "create", name := fresh("gpu"), "--sku", sku)
    told = await admin.run("ops", "fleet-health")
    troubled = name in told.out
    assert told.code == (1 if troubled else 0), told.said
    assert "sellable" in told.out
    found = (await admin.run("ops", "fleet-health", "-o", "json")).out
    assert msgspec.json.decode(found)["nodes"] >= 1


async def test_the_authority_is_shown_and_rotated(admin: Terminal):
    assert (await admin.run("ops", "ca", "rotate", "--reason", "by schedule")).code == 2, "nobody was there to ask"
    assert "intermediate" in await admin.good("ops", "ca", "rotate", "--reason", "by schedule", "--yes")
    authorities = (await admin.run("ops", "ca", "show", "-o", "json")).json["authorities"]
    assert "signing" in {one["state"] for one in authorities}
    assert "BEGIN CERTIFICATE" not in await admin.good("ops", "ca", "show")


async def test_nodes_and_skus_are_completed_by_name_for_who_may_see_them(admin: Terminal, sku: str):
    await admin.good("nodes", "create", name := fresh("gpu"), "--sku", sku)
    for words in (["nodes", "show"], ["nodes", "check", "--load"], ["ops", "node-metrics"], ["nodes", "return"]):
        assert name in (await admin.good("__complete", "--", *words, name[:8])).split(), words
    assert sku in (await admin.good("__complete", "--", "skus", "show", sku[:8])).split()
    assert sku in (await admin.good("__complete", "--", "nodes", "list", "--sku", sku[:8])).split()


async def test_nobody_else_is_told_of_nodes_by_completion(newcomer: Terminal):
    assert await newcomer.good("__complete", "--", "nodes", "show", "") == ""


async def test_a_probe_says_what_it_tried_or_why_it_may_not(admin: Terminal, sku: str):
    await admin.good("nodes", "create", name := fresh("gpu"), "--sku", sku, "--address", "127.0.0.1")
    refused = await admin.run("nodes", "probe", name)
    assert refused.code != 0
    assert "this machine itself" in refused.err
    await admin.good("nodes", "update", name, "--address", "no-such-host.invalid")
    unknown = await admin.run("nodes", "probe", name, "--port", "9")
    assert unknown.code == 1
    assert "was not reached at port 9" in unknown.err
    assert (await admin.run("nodes", "probe", name, "--port", "70000")).code == 2


async def test_a_lost_gpu_is_seen_in_the_list_and_a_task_tells_names(
    admin: Terminal, sku: str, past_all_walls: Superuser
):
    made = (await admin.run("nodes", "create", name := fresh("gpu"), "--sku", sku, "-o", "json")).json
    assert (made["node"]["gpus"], made["node"]["gpus_expected"]) == (0, 8)
    await past_all_walls.execute("UPDATE nodes SET state = 'active' WHERE id = $1", UUID(made["id"]))
    for index in range(8):
        await past_all_walls.execute(
            "INSERT INTO slots (id, node_id, serial, gpu_index, address, vendor, model, memory_bytes, numa, "
            "iommu_group, present, sku_id) SELECT $1, id, $3, $4, '0000:01:00.0', 'NVIDIA', 'H200', 1, 0, 1, true, "
            "sku_id FROM nodes WHERE id = $2",
            new_id(),
            UUID(made["id"]),
            f"{name}-{index}",
            index,
        )
    assert "8/8" in await admin.good("nodes", "show", name)
    await admin.good("nodes", "quarantine", name, "3", "--reason", "fell off the bus")
    assert "7/8" in await admin.good("nodes", "show", name)
    assert "7/8" in await admin.good("nodes", "list", "--sku", sku)
    told = await admin.good("nodes", "return", name, "3", "--reason", "reseated")
    me = (await admin.run("whoami", "-o", "json")).json["email"]
    for part in (f"{name} ({made['id']})", f"GPU 3, {name}-3", me):
        assert part in told, told
    assert name in await admin.good("nodes", "tasks", "--type", "node.health")


async def test_the_audit_log_names_the_policy_that_was_set_and_seconds_are_rounded(admin: Terminal):
    await admin.good("policy", "set", "nodes.lost_seconds", "601", "--global", "--reason", "a test")
    assert "nodes.lost_seconds" in await admin.good("audit", "list", "--global", "--action", "policy.set")
    shown = (await admin.run("ops", "health")).out
    assert not re.search(r"\d\.\d{2,}", shown), shown


async def test_orphans_are_listed_and_reclaimed(admin: Terminal, sku: str, past_all_walls: Superuser):
    assert "Nothing differs" in (await admin.run("ops", "orphans", "list")).err
    await admin.good("nodes", "create", node := fresh("gpu"), "--sku", sku)
    orphan, nobody = new_id(), new_id()
    await past_all_walls.execute("UPDATE nodes SET state = 'active' WHERE name = $1", node)
    await past_all_walls.execute(
        "INSERT INTO orphans (id, node_id, kind, name, detail) "
        "SELECT $1, id, 'lease', $2, 'no allocation is known' FROM nodes WHERE name = $3",
        orphan,
        str(nobody),
        node,
    )
    listed = await admin.good("ops", "orphans", "list")
    assert node in listed
    assert str(nobody) in listed
    asked = await admin.run("ops", "orphans", "reclaim", str(orphan), "--reason", "of nobody", "--yes", "-o", "json")
    assert asked.json["task_id"] is not None, asked.said
    assert (await admin.run("ops", "orphans", "reclaim", "x", "--reason", "of nobody", "--yes")).code == 2
    assert (await admin.run("ops", "orphans", "reclaim", str(new_id()), "--reason", "of nobody", "--yes")).code == 5


# ── faults on tap ────────────────────────────────────────────────────────────────────────────────


class SpokenTo:
    """A socket that answers as a simulated fleet of one node, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[ControlRequest] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = msgspec.json.decode(await reader.readline(), type=ControlRequest)
        self.asked.append(request)
        status = NodeStatus(node="demo-001", node_id="x", gpus=8, lost_gpus=[3], accounts=0, faults=["lose_gpu"])
        known = request.node in {"", "demo-001"}
        answer = ControlAnswer(
            ok=known, message="" if known else f"there is no node {request.node}", nodes=[status] if known else []
        )
        writer.write(msgspec.json.encode(answer) + b"\n")
        await writer.drain()
        writer.close()


@pytest.fixture
async def data_dir() -> AsyncIterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="gpuaas-"))  # a unix socket's address is short
    (folder / "fleet").mkdir()
    yield folder
    shutil.rmtree(folder)


async def test_faults_are_asked_of_the_simulated_fleet_of_this_machine(terminal: Terminal, data_dir: Path):
    spoken = SpokenTo()
    here = ("--data-dir", str(data_dir))
    async with await asyncio.start_unix_server(spoken.serve, data_dir / "fleet" / "0.sock"):
        assert "demo-001" in await terminal.good("ops", "faults", "list", *here)
        await terminal.good("ops", "faults", "lose-gpu", "demo-001", "3", *here)
        await terminal.good("ops", "faults", "gpu-use", "demo-001", "3", "90", *here)
        await terminal.good("ops", "faults", "skew-clock", "all", "-30", *here)
        await terminal.good("ops", "faults", "clear", *here)
        stranger = await terminal.run("ops", "faults", "fail-health", "elsewhere", *here)
    assert [(one.do, one.node) for one in spoken.asked[:5]] == [
        (Do.STATUS, ""),
        (Do.LOSE_GPU, "demo-001"),
        (Do.GPU_USE, "demo-001"),
        (Do.SKEW_CLOCK, ""),
        (Do.CLEAR, ""),
    ]
    assert (spoken.asked[1].gpu, spoken.asked[1].xid, spoken.asked[3].seconds) == (3, 79, -30.0)
    assert (spoken.asked[2].gpu, spoken.asked[2].percent) == (3, 90.0)
    assert stranger.code == 2
    assert "There is no node elsewhere." in stranger.err


async def test_without_a_simulated_fleet_there_are_no_faults_to_have(terminal: Terminal, data_dir: Path):
    alone = await terminal.run("ops", "faults", "list", "--data-dir", str(data_dir))
    assert alone.code == 8
    assert "gpuaas up" in alone.err
