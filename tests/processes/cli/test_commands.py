"""What a person does with the command line, on the live API."""

import asyncio
import json
import stat
from collections.abc import Awaitable, Callable

import asyncpg

from gpuaas.kit.ids import new_id
from tests.support.live import LiveApi
from tests.support.servers import DatabaseUrls
from tests.support.terminal import Person, Terminal

ESCAPE = "\x1b]0;owned\x07"
ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJl3dIeudNqd0DPMRD6OIh65tjkxFNOtwGcWB2gCgPhk ada@laptop"


async def test_a_project_is_made_listed_renamed_and_deleted_by_name(ada: Terminal):
    await ada.good("projects", "create", "research", "--title", "Research, long term")
    listed = await ada.good("projects", "list")
    assert listed.splitlines()[0].split() == ["NAME", "TITLE", "COST", "CENTRE", "CREATED", "ID"]
    assert "Research, long term" in listed
    await ada.good("projects", "update", "research", "--name", "science")
    assert "science" in await ada.good("projects", "show", "science")
    refused = await ada.run("projects", "delete", "science")
    assert refused.code == 2
    assert "--yes" in refused.err
    await ada.good("projects", "delete", "science", "--yes")
    gone = await ada.run("projects", "show", "science")
    assert gone.code == 5
    assert "gpuaas projects list" in gone.err


async def test_json_is_the_apis_own_and_a_table_has_no_colour_when_nobody_looks(ada: Terminal, live_api: LiveApi):
    await ada.good("projects", "create", "plain")
    org = (await ada.run("context", "show", "-o", "json")).json["org"]["id"]
    [session] = (ada.folder / "sessions").glob("*.json")
    token = json.loads(session.read_bytes())["access_token"]
    direct = await live_api.client.get(
        f"/api/v1/orgs/{org}/projects?limit=200", headers={"authorization": f"Bearer {token}"}
    )
    assert (await ada.good("projects", "list", "--output", "json")).rstrip("\n").encode() == direct.content
    assert "\x1b" not in await ada.good("projects", "list")


async def test_pages_are_joined_up_to_the_limit(ada: Terminal):
    for number in range(4):
        await ada.good("projects", "create", f"p{number}")
    assert len(await ada.rows("projects", "list", "--limit", "3")) == 3
    limited = await ada.run("projects", "list", "--limit", "2")
    assert len(limited.out.splitlines()) == 3
    assert "--all" in limited.err
    assert [row["name"] for row in await ada.rows("projects", "list", "--all")] == ["p0", "p1", "p2", "p3"]


async def test_errors_say_what_to_do_with_their_correlation_id_and_their_exit_code(ada: Terminal):
    await ada.good("projects", "create", "taken")
    conflict = await ada.run("projects", "create", "taken")
    assert conflict.code == 6
    assert conflict.out == ""
    assert "Choose another name." in conflict.err
    assert "correlation id: " in conflict.err
    assert (await ada.run("orgs", "show", str(new_id()))).code == 5
    assert (await ada.run("ops", "users", "list")).code == 4
    bad = await ada.run("projects", "create", "Not A Name")
    assert bad.code == 1
    assert "lower-case letters" in bad.err
    assert "regex" not in bad.err


async def test_a_service_account_works_with_its_key_within_its_allow_list(ada: Terminal):
    await ada.good("service-accounts", "create", "ci", "--role", "member", "--allow", "project_list,session_get")
    key = ada.home / "ci.key"
    await ada.good("service-accounts", "keys", "create", "ci", "--to-file", str(key), "--days", "30")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert "ci" in await ada.good("whoami", "--token-file", str(key))
    await ada.good("projects", "list", "--token-file", str(key))
    outside = await ada.run("projects", "create", "x", "--token-file", str(key))
    assert outside.code == 4
    assert "allow-list" in outside.err
    await ada.good("service-accounts", "allow-list", "add", "ci", "member_list")
    [account] = await ada.rows("service-accounts", "list")
    assert sorted(account["allowed_operations"]) == ["member_list", "project_list", "session_get"]
    await ada.good("service-accounts", "allow-list", "remove", "ci", "member_list")

    [listed] = await ada.rows("service-accounts", "keys", "list", "ci")
    rotated = (await ada.run("service-accounts", "keys", "rotate", "ci", listed["id"], "-o", "json")).json
    ada.environment["GPUAAS_TOKEN"] = rotated["key"]
    await ada.good("projects", "list")
    ada.environment.clear()
    await ada.good("service-accounts", "keys", "revoke", "ci", rotated["id"], "--yes")
    await asyncio.sleep(1)  # every replica obeys within a second, not at once
    ada.environment["GPUAAS_TOKEN"] = rotated["key"]
    revoked = await ada.run("projects", "list")
    assert revoked.code == 3, revoked.said


async def test_a_policy_is_set_explained_rehearsed_and_taken_away(ada: Terminal):
    name = "identity.invitation_days"
    assert "default" in await ada.good("policy", "get", name)
    touched = await ada.good("policy", "rehearse", name, "3")
    assert "7 → 3" in touched
    assert "Nothing was changed" in touched
    await ada.good("policy", "set", name, "3", "--reason", "security review")
    told = await ada.good("policy", "explain", name)
    assert "is 3 days" in told
    assert "security review" in told
    too_much = await ada.run("policy", "set", name, "9000", "--reason", "why not")
    assert too_much.code == 1
    assert "from 1 to 90 days" in too_much.err
    await ada.good("policy", "unset", name, "--reason", "over", "--yes")
    assert (await ada.run("policy", "get", name, "-o", "json")).json["value"] == 7
    missing = await ada.run("policy", "get", "no.such")
    assert missing.code == 5
    assert "gpuaas policy list" in missing.err


async def test_an_invitation_is_made_and_accepted(
    ada: Terminal, live_api: LiveApi, person: Callable[..., Awaitable[Person]]
):
    bob = await person()
    made = (await ada.run("invitations", "create", bob.email, "--role", "viewer", "-o", "json")).json
    (bobs_home := ada.home / "bob").mkdir()
    his = Terminal(bobs_home)
    await his.log_in(bob, "--url", live_api.url)
    accepted = await his.run("invitations", "accept", stdin=made["token"] + "\n")
    assert accepted.code == 0, accepted.said
    await ada.good("members", "set", bob.email, "admin")
    roles = {row["email"]: row["role"] for row in await ada.rows("members", "list")}
    assert roles[bob.email] == "admin"
    await ada.good("members", "remove", bob.email, "--yes")
    assert (await ada.run("members", "set", bob.email, "viewer")).code == 5


async def test_ssh_keys_are_added_and_deleted_and_a_private_one_is_never_sent(ada: Terminal):
    public, private = ada.home / "id.pub", ada.home / "id"
    public.write_text(ED25519 + "\n")
    private.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\n")
    refused = await ada.run("keys", "add", str(private))
    assert refused.code == 2
    assert "was not sent" in refused.err
    await ada.good("keys", "add", str(public))
    assert "ada@laptop" in await ada.good("keys", "list")
    assert (await ada.run("keys", "add", str(public))).code == 6
    await ada.good("keys", "delete", "ada@laptop", "--yes")
    assert await ada.rows("keys", "list") == []


async def test_the_audit_log_is_listed_and_exported(ada: Terminal):
    await ada.good("projects", "create", "watched")
    [entry] = await ada.rows("audit", "list", "--action", "project.create", "--from", "1h")
    shown = await ada.good("audit", "show", entry["id"])
    assert "watched" in shown
    file = ada.home / "audit.csv"
    await ada.good("audit", "export", "--format", "csv", "--to-file", str(file))
    assert "project.create" in file.read_text()
    lines = (await ada.good("audit", "export", "--action", "project.create")).splitlines()
    assert [json.loads(line)["id"] for line in lines] == [entry["id"]]
    assert (await ada.run("audit", "list", "--from", "yesterday")).code == 2


async def test_text_from_outside_does_not_act_on_the_terminal(ada: Terminal, database: DatabaseUrls):
    await ada.good("projects", "create", "quiet")
    connection = await asyncpg.connect(database.superuser)
    await connection.execute("UPDATE projects SET title = $1 WHERE name = 'quiet'", f"[red]a{ESCAPE}\u202eb\nc")
    await connection.close()
    listed = await ada.good("projects", "list")
    assert "\x1b" not in listed
    assert "\u202e" not in listed
    assert "[red]a\\x1b]0;owned\\x07\\u202eb\\x0ac" in listed
    assert "\x1b" not in await ada.good("projects", "list", "-o", "json")


async def test_names_complete_from_the_api_and_from_memory(ada: Terminal):
    await ada.good("projects", "create", "complete-me")
    told = await ada.good("__complete", "--", "projects", "show", "comp")
    assert told.split() == ["complete-me"]
    [session] = (ada.folder / "sessions").glob("*.json")
    session.unlink()
    assert (await ada.good("__complete", "--", "projects", "show", "comp")).split() == ["complete-me"]


async def test_version_tells_both(ada: Terminal):
    both = (await ada.run("version", "-o", "json")).json
    assert both["client"] == both["server"]
