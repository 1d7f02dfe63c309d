"""What those who operate an installation do with the command line, on the live API."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias
from uuid import UUID

import asyncpg

from gpuaas.kit.ids import new_id
from tests.support.live import LiveApi
from tests.support.terminal import Person, Terminal

Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
DEAD = """INSERT INTO dead_letters (id, consumer, event_id, event_name, correlation_id, reason, attempts, state)
          SELECT $1, 'issuer.sessions_end', id, name, correlation_id, 'it \x1b[31mfailed', 8, 'open'
          FROM outbox WHERE name = 'org.created' ORDER BY id LIMIT 1"""


async def test_an_installation_in_which_all_holds_verifies(admin: Terminal):
    verified = await admin.run("ops", "verify")
    assert verified.code == 0, verified.said
    assert "failed" not in verified.out
    assert "were recomputed" in verified.err
    assert (await admin.run("ops", "verify", "-o", "json")).json["holds"] is True


async def test_a_row_that_should_not_be_ends_verify_with_1_and_is_printed(admin: Terminal, past_all_walls: Superuser):
    event: UUID = await past_all_walls.fetchval(
        "UPDATE outbox SET created_at = now() - interval '2 minutes' WHERE id = (SELECT id FROM outbox LIMIT 1) "
        "RETURNING id"
    )
    broken = await admin.run("ops", "verify")
    await past_all_walls.execute("UPDATE outbox SET created_at = now()")
    assert broken.code == 1
    assert f"error: invariant_11_outbox_drains does not hold. {event}: event " in broken.err
    assert "failed" in broken.out


async def test_dead_letters_are_looked_at_replayed_and_discarded(admin: Terminal, past_all_walls: Superuser):
    assert "No dead letters." in (await admin.run("ops", "dead-letters", "list")).err
    letter = str(new_id())
    await past_all_walls.execute(DEAD, UUID(letter))
    listed = await admin.good("ops", "dead-letters", "list", "--state", "open")
    assert letter in listed
    assert "\x1b" not in listed
    shown = await admin.good("ops", "dead-letters", "show", letter)
    assert "issuer.sessions_end" in shown
    assert '"org_id": ' in shown, "the event itself is shown"
    assert "discarded" in await admin.good("ops", "dead-letters", "discard", letter, "--reason", "never mind", "--yes")
    again = await admin.run("ops", "dead-letters", "replay", letter)
    assert again.code == 6
    await past_all_walls.execute("UPDATE dead_letters SET state = 'open' WHERE id = $1", UUID(letter))
    assert "replaying" in await admin.good("ops", "dead-letters", "replay", letter)
    assert (await admin.run("ops", "dead-letters", "show", str(new_id()))).code == 5


async def test_health_needs_a_platform_role_and_readiness_nothing(admin: Terminal, live_api: LiveApi):
    stranger = Terminal(admin.home / "stranger")
    ready = await stranger.run("ops", "ready", "--url", live_api.url)
    assert ready.code == 0, ready.said
    assert "database" in ready.out
    health = await admin.run("ops", "health")
    assert "outbox unpublished" in health.out
    checks, _ = health.out.split("\n\n")  # figures come after, among them how many emails failed
    assert health.code == (1 if "failed" in checks else 0)
    assert (await admin.run("ops", "stats", "-o", "json")).json["pid"] > 0


async def test_a_user_is_kept_out_and_let_in_again(
    admin: Terminal, person: Callable[..., Awaitable[Person]], live_api: LiveApi
):
    (home := admin.home / "eve").mkdir()
    eve, hers = await person(), Terminal(home)
    await hers.log_in(eve, "--url", live_api.url)
    await admin.good("ops", "users", "disable", eve.email, "--reason", "left the company", "--yes")
    await asyncio.sleep(1)  # what is promised: within a second
    assert (await hers.run("orgs", "list")).code in {3, 4}
    await admin.good("ops", "users", "enable", eve.email, "--reason", "came back")
    assert "active" in await admin.good("ops", "users", "show", eve.email)


async def test_a_revoked_credential_is_refused_within_a_second(admin: Terminal):
    await admin.good("service-accounts", "create", "lost", "--role", "viewer", "--allow", "*")
    made = (await admin.run("service-accounts", "keys", "create", "lost", "-o", "json")).json
    await admin.good("ops", "revoke", made["id"], "--reason", "posted on a forum", "--yes")
    await asyncio.sleep(1)
    admin.environment["GPUAAS_TOKEN"] = made["key"]
    assert (await admin.run("projects", "list")).code == 3


async def test_the_issuers_keys_are_read_again_and_its_logins_made(admin: Terminal, live_api: LiveApi):
    assert live_api.settings.issuer in await admin.good("ops", "refresh-keys")
    made = (
        await admin.run("ops", "issuer", "accounts", "create", "new@example.com", "--name", "New Person", "-o", "json")
    ).json
    assert made["temporary_password"]
    assert "new@example.com" in await admin.good("ops", "issuer", "accounts", "list", "--email", "new@example.com")
    assert "ES256" in await admin.good("ops", "issuer", "keys", "list")


async def test_everything_is_compared_and_what_differs_ends_with_1(admin: Terminal, past_all_walls: Superuser):
    said = await admin.good("ops", "reconcile")
    for equation in ("provider payments = ledger credits", "metered seconds = seconds held"):
        assert equation in said
    assert (await admin.run("ops", "reconcile", "-o", "json")).json["holds"] is True
    await past_all_walls.execute(
        "INSERT INTO payment_differences (id, kind, object_id, currency, ours_micros, theirs_micros, detail) "
        "VALUES (gen_random_uuid(), 'not_ours', 'cs_strange', 'USD', 0, 7000000, 'nobody knows it')"
    )
    try:
        differs = await admin.run("ops", "reconcile")
    finally:
        await past_all_walls.execute("DELETE FROM payment_differences WHERE object_id = 'cs_strange'")
    assert (differs.code, "cs_strange" in differs.out) == (1, True)


async def test_an_operator_names_organisations_he_is_not_in_and_nobody_else_does(
    admin: Terminal, live_api: LiveApi, person: Callable[..., Awaitable[Person]]
):
    newcomer = Terminal(admin.home / "newcomer")
    await newcomer.log_in(await person(), "--url", live_api.url)
    theirs, ours = f"theirs-{new_id().hex[-8:]}", f"ours-{new_id().hex[-8:]}"
    await newcomer.good("orgs", "create", theirs)
    await admin.good("orgs", "create", ours)
    assert theirs in await admin.good("ops", "orgs", "list", "--name", theirs)
    assert "No such organisation." in (await admin.run("ops", "orgs", "list", "--name", "not-there")).err
    adjusted = await admin.run("billing", "adjust", "12.50", "--org", theirs, "--reason", "welcome", "--yes")
    assert adjusted.code == 0, adjusted.said
    refused = await newcomer.run("billing", "balance", "--org", ours)
    assert refused.code == 5
    assert f"There is no organisation '{ours}' that you can see." in refused.err
