"""Allocations by the command line: asked for with phases shown, looked at, explained, given back, and proven clean
without us. The machines are simulated; everything else is real."""

import asyncio
import base64
import contextlib
import json
import os
import pty
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from gpuaas.contracts.certificates import SanitisationStatement
from gpuaas.infra.postgres.database import Database
from gpuaas.kit import dsse
from gpuaas.kit.ids import new_id
from gpuaas.kit.secrets import MasterKey
from tests.every.world import ssh_public_key
from tests.support.ground import Ground, ground_of
from tests.support.live import LiveApi
from tests.support.money import given
from tests.support.terminal import GPUAAS, SECONDS, Terminal

NOBODY = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
async def grounds(db: Database, live_api: LiveApi) -> AsyncIterator[Ground]:
    """With the keys of the API, so that what is sealed and signed on one side is read on the other."""
    async with ground_of(db, machines=1, master=MasterKey.from_text(live_api.settings.master_key)) as made:
        yield made


@pytest.fixture
async def ground(grounds: Ground) -> Ground:
    """Its machines have just been heard of."""
    for machine in grounds.machines:
        await machine.beat()
    return grounds


@pytest.fixture
async def working(ground: Ground) -> AsyncIterator[Ground]:
    """Flows are run and machines work, as the worker and the agents would."""

    async def work() -> None:
        while True:
            await ground.run()
            for machine in ground.machines:
                await machine.beat()
            await asyncio.sleep(0.05)

    task = asyncio.create_task(work())
    yield ground
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.fixture
def sku(grounds: Ground) -> str:
    return str(grounds.sku_id)


@pytest.fixture
async def tenant(ada: Terminal, tmp_path: Path, db: Database) -> Terminal:
    """Somebody with money, one project and an SSH key; nothing of it has to be named."""
    await given(db, await org_of(ada))
    await ada.good("projects", "create", "training")
    if not await ada.rows("keys", "list"):
        (tmp_path / "key.pub").write_text(ssh_public_key() + " ada@laptop\n")
        await ada.good("keys", "add", str(tmp_path / "key.pub"))
    return ada


async def org_of(terminal: Terminal) -> str:
    return str((await terminal.run("orgs", "show", "-o", "json")).json["id"])


def fresh(word: str) -> str:
    return f"{word}-{new_id().hex[-12:]}"


async def test_asked_for_with_wait_it_shows_its_phases_and_ends_with_how_to_log_in(
    tenant: Terminal, working: Ground, sku: str, tmp_path: Path
):
    ran = await tenant.run("allocations", "create", "--sku", sku, "--gpus", "2", "--name", "train", "--wait")
    assert ran.code == 0, ran.said
    phases = [line.split()[2] for line in ran.err.splitlines() if " s  " in line]
    assert phases == ["reserved", "held", "leased", "account", "proven", "active"]
    assert ran.out.startswith("ssh ")
    assert ran.out.count("\n") == 1, "the command alone, for a script to run"

    listed = await tenant.good("allocations", "list")
    assert "train" in listed
    assert "active" in listed
    shown = await tenant.good("allocations", "show", "train")
    for part in ("active", "2 × H200", "ssh ", "lease ends", "user-revoke", "7.20 USD", "the balance lasts"):
        assert part in shown, shown
    timeline = await tenant.good("allocations", "timeline", "train")
    assert "node.health" in timeline
    assert "Cost so far: 0." in timeline
    assert "user.provision" in await tenant.good("allocations", "tasks", "train", "--logs")
    explained = await tenant.good("allocations", "explain", "train")
    assert explained.startswith("train has 2 H200 GPUs")
    assert "What happens next?\n  Its lease ends" in explained
    assert "lasts until" in await tenant.good("allocations", "renew", "train", "--hours", "3")
    assert "train" in await tenant.good("__complete", "--", "allocations", "show", "tr")

    released = await tenant.run("allocations", "release", "train", "--wait", "--reason", "finished")
    assert released.code == 0, released.said
    assert [line.split()[2] for line in released.err.splitlines() if " s  " in line] == [
        "releasing",
        "settled",
        "revoked",
        "cleaned",
        "released",
    ]
    assert "Certificate of sanitisation: " in released.out
    assert "finished" in await tenant.good("allocations", "explain", "train"), "the newest of its name, once it ended"
    await the_certificate_holds_without_us(tenant, tmp_path)


async def the_certificate_holds_without_us(tenant: Terminal, folder: Path) -> None:
    [listed] = await tenant.rows("certificates", "list", "--allocation", "train")
    path = folder / "certificate.json"
    downloaded = await tenant.run("certificates", "download", "train", "--to-file", str(path))
    assert downloaded.code == 0, downloaded.said
    assert "Kept the public key" in downloaded.err
    by_id = await tenant.good("certificates", "download", listed["id"], "--to-file", str(folder / "again.json"))
    assert by_id.strip() == str(folder / "again.json")
    assert (folder / "again.json").read_bytes() == path.read_bytes()
    keys = folder / "keys.json"
    keys.write_text((await tenant.run("certificates", "keys", "--output", "json")).out)

    told = await tenant.run("certificates", "verify", str(path), "--url", NOBODY)
    assert told.code == 0, told.said
    assert told.out.startswith("Valid: ")
    for part in ("memory cleared", "disk erased", "2 of 2 clean and healthy", "removed"):
        assert part in told.out, told.out
    stranger = Terminal(folder / "elsewhere")
    alone = await stranger.run("certificates", "verify", str(path))
    assert alone.code == 2, "nobody guesses a key"
    assert "--keys" in alone.err
    checked = (await stranger.run("certificates", "verify", str(path), "--keys", str(keys), "-o", "json")).json
    assert checked["valid"] is True
    assert checked["statement"]["allocation_id"] == listed["allocation_id"]
    await no_byte_can_change(tenant, path)
    await a_key_signs_only_in_its_time(stranger, path, keys)


async def no_byte_can_change(tenant: Terminal, path: Path) -> None:
    whole = path.read_bytes()
    payload = base64.b64decode(msgspec.json.decode(whole, type=dsse.Envelope).payload)
    assert msgspec.json.decode(payload, type=SanitisationStatement).account_removed
    places = [0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 20, len(whole) - 1]
    changed = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in places]
    for number, content in enumerate([*changed, whole + b"\n", whole[:-1], b"", b"\xff"]):
        other = path.with_name(f"changed-{number}.json")
        other.write_bytes(content)
        refused = await tenant.run("certificates", "verify", str(other), "--url", NOBODY)
        assert refused.code == 1, f"{number}: {refused.said}"
        assert "NOT VALID" in refused.err


async def a_key_signs_only_in_its_time(stranger: Terminal, path: Path, keys: Path) -> None:
    told = json.loads(keys.read_text())
    for key in told["keys"]:
        key["signs_until"] = key["signs_from"]
        key["signs_from"] = "2020-01-01T00:00:00Z"
    keys.write_text(json.dumps(told))
    late = await stranger.run("certificates", "verify", str(path), "--keys", str(keys))
    assert (late.code, "did not sign" in late.err) == (1, True), late.said


async def test_what_never_becomes_active_ends_the_command_with_its_reason(tenant: Terminal, working: Ground, sku: str):
    machine = working.machines[0]
    for index in range(8):
        machine.host.fail_health(index)
    try:
        ran = await tenant.run("allocations", "create", "--sku", sku, "--name", "sick", "--wait")
        assert ran.code == 1, ran.said
        assert "sick is failed: GPU " in ran.err
        assert "gpuaas allocations explain" in ran.err
        explained = await tenant.good("allocations", "explain", "sick")
        assert "Why did it fail?" in explained
        assert "Nothing: it was never active." in explained
    finally:
        await working.anew()


async def test_what_does_not_fit_is_told_and_can_wait_in_the_queue(tenant: Terminal, working: Ground, sku: str):
    await tenant.good("allocations", "create", "--sku", sku, "--gpus", "8", "--name", "all", "--wait")
    full = await tenant.run("allocations", "create", "--sku", sku)
    assert full.code == 6
    assert "--queue" in full.err
    estimated = await tenant.good("allocations", "estimate", "--sku", sku)
    assert "place 1 of 1" in estimated
    waiting = await tenant.run("allocations", "create", "--sku", sku, "--name", "next", "--queue")
    assert (waiting.code, "next is requested" in waiting.out) == (0, True), waiting.said
    shown = await tenant.good("allocations", "show", "next")
    assert "place 1 of 1" in shown
    assert "Why does it wait?" in await tenant.good("allocations", "explain", "next")
    cancelled = await tenant.good("allocations", "release", "next")
    assert "nothing was charged" in cancelled
    assert (await tenant.run("allocations", "release", "all", "--yes", "--wait")).code == 0


async def test_without_an_ssh_key_the_way_to_one_is_told(newcomer: Terminal, ground: Ground, sku: str, tmp_path: Path):
    ada = newcomer
    await given(ground.db, (await ada.rows("orgs", "list"))[0]["id"])
    await ada.good("projects", "create", "training")
    none = await ada.run("allocations", "create", "--sku", sku, "--no-wait")
    assert none.code == 1
    assert "ssh-keygen" in none.err
    assert "gpuaas keys add" in none.err
    (tmp_path / ".ssh").mkdir()
    own = tmp_path / ".ssh" / "id_ed25519.pub"
    own.write_text(ssh_public_key() + "\n")
    offered = await ada.run("allocations", "create", "--sku", sku, "--no-wait")
    assert offered.code == 1
    assert f"--ssh-key {own}" in offered.err
    made = await ada.run("allocations", "create", "--sku", sku, "--no-wait", "--ssh-key", str(own), "-o", "json")
    assert made.json["state"] == "provisioning"
    await ada.good("allocations", "release", made.json["id"], "--yes")
    await ground.run()


async def test_watching_can_be_stopped_and_the_allocation_stays(tenant: Terminal, ground: Ground, sku: str):
    """Nobody works here, so it waits to be made ready until we let go."""
    process = await tenant.start("allocations", "create", "--sku", sku, "--name", "stays", "--wait")
    assert process.stderr is not None
    said = ""
    while "reserved" not in said:
        said += (await asyncio.wait_for(process.stderr.readline(), SECONDS)).decode()
    process.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(process.communicate(), SECONDS)
    assert process.returncode == 130
    assert "stays goes on without you" in err.decode()
    assert [one["state"] for one in await tenant.rows("allocations", "list", "--live")] == ["provisioning"]
    await ground.run()
    assert "active" in await tenant.good("allocations", "show", "stays")
    await tenant.good("allocations", "release", "stays", "--yes")
    await ground.run()


async def test_on_a_terminal_phases_are_ticked_off_and_a_release_is_asked_about(
    tenant: Terminal, working: Ground, sku: str
):
    screen = await on_a_terminal(tenant, "allocations", "create", "--sku", sku, "--name", "seen")
    assert "✓" in screen
    assert "is yours until its lease ends" in screen, "on a terminal it waits by itself"
    refused = await on_a_terminal(tenant, "allocations", "release", "seen", answer="n\n")
    assert "Nothing was changed." in refused
    assert "active" in await tenant.good("allocations", "show", "seen")
    agreed = await on_a_terminal(tenant, "allocations", "release", "seen", answer="y\n")
    assert "seen is released." in agreed


async def on_a_terminal(tenant: Terminal, *words: str, answer: str = "") -> str:
    """What a person sees."""
    here, there = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *GPUAAS, *words, stdin=there, stdout=there, stderr=there, env=tenant._environment() | {"TERM": "xterm"}
    )
    os.close(there)
    os.write(here, answer.encode())

    def read_all() -> str:
        seen = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(here, 65_536):
                seen += part
        return seen.decode(errors="replace")

    screen = await asyncio.wait_for(asyncio.to_thread(read_all), SECONDS)
    await process.wait()
    os.close(here)
    return screen


async def test_an_operator_sees_all_of_them_and_can_force_one_and_look_at_flows(
    admin: Terminal, working: Ground, sku: str, tmp_path: Path
):
    await given(working.db, await org_of(admin))
    await admin.good("projects", "create", "training")
    (tmp_path / "key.pub").write_text(ssh_public_key())
    name = fresh("mine")
    made = await admin.run(
        *("allocations", "create", "--sku", sku, "--name", name, "--wait", "--ssh-key", str(tmp_path / "key.pub")),
        *("--tag", "nlp", "-o", "json"),
    )
    allocation_id = made.json["id"]
    assert [one["id"] for one in await admin.rows("allocations", "list", "--tag", "nlp")] == [allocation_id]
    assert name in await admin.good("allocations", "list", "--everybody", "--live")
    node = made.json["gpus"][0]["node_name"]
    assert name in await admin.good("allocations", "list", "--node", node)
    [flow] = await admin.rows("ops", "flows", "list", "--subject", allocation_id)
    shown = await admin.good("ops", "flows", "show", flow["id"])
    assert "allocation.provision" in shown
    assert "activate" in shown
    ended = await admin.run("ops", "flows", "abort", flow["id"], "--reason", "too late", "--yes")
    assert (ended.code, "done" in ended.err) == (6, True), ended.said
    assert (await admin.run("ops", "flows", "retry", flow["id"])).code == 6
    asked = await admin.run("allocations", "force-release", name, "--reason", "evacuation")
    assert (asked.code, "--yes" in asked.err) == (2, True)
    forced = await admin.run("allocations", "force-release", name, "--reason", "evacuation", "--yes", "--wait")
    assert forced.code == 0, forced.said
    assert f"{name} is released." in forced.out
    assert "an operator, asked for it" in await admin.good("allocations", "explain", name)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["allocations", "show", "nobody"], 5, "gpuaas allocations list"),
        (["allocations", "release", str(new_id())], 5, "gpuaas allocations list"),
        (["allocations", "create", "--sku", "nothing"], 5, "gpuaas skus list"),
        (["allocations", "create", "--sku", "x", "--wait", "--no-wait"], 2, "not both"),
        (["allocations", "create", "--sku", "x", "--gpus", "0"], 2, "not a positive number"),
        (["allocations", "create", "--sku", "x", "--ssh-key", "/nowhere"], 2, "Cannot read /nowhere"),
        (["allocations", "renew", "nobody"], 5, "There is no allocation 'nobody'"),
        (["certificates", "download", "nobody"], 5, "There is no allocation 'nobody'"),
        (["certificates", "verify", "/nowhere"], 2, "Cannot read /nowhere"),
        (["certificates", "verify", __file__, "--keys", __file__], 2, "holds no keys"),
        (["ops", "flows", "show", "seven"], 2, "is not an id"),
    ],
)
async def test_what_cannot_be_says_what_to_do(tenant: Terminal, words: list[str], code: int, said: str):
    ran = await tenant.run(*words)
    assert ran.code == code, ran.said
    assert said in ran.err


async def test_what_is_for_operators_is_denied_to_others(newcomer: Terminal):
    for words in (
        ["ops", "flows", "list"],
        ["allocations", "list", "--everybody"],
        ["allocations", "list", "--node", "x"],
    ):
        assert (await newcomer.run(*words)).code == 4, words


async def test_nothing_yet_says_how_to_begin(tenant: Terminal):
    for words, said in (
        (("allocations", "list"), "gpuaas allocations create"),
        (("allocations", "list", "--live"), "No allocation is so."),
        (("certificates", "list"), "when an allocation is released"),
    ):
        ran = await tenant.run(*words)
        assert (ran.code, ran.out) == (0, ""), ran.said
        assert said in ran.err


async def test_a_kept_key_is_never_replaced_by_another_of_its_name(tenant: Terminal, ground: Ground):
    made = await ground.active(1)
    await ground.release(made.id)
    await ground.run()
    told = (await tenant.run("certificates", "keys", "-o", "json")).json
    kept = tenant.folder / "certificate-keys.json"
    assert json.loads(kept.read_text()) == told
    told["keys"][0]["public_key"] = base64.b64encode(bytes(32)).decode()
    kept.write_text(json.dumps(told))
    refused = await tenant.run("certificates", "keys")
    assert refused.code == 1
    assert "forging" in refused.err
    assert json.loads(kept.read_text()) == told
