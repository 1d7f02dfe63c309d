"""People: oneself, SSH keys, and what the platform's admins do with users."""

import asyncio

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gpuaas.contracts.permissions import PlatformRole
from tests.support.people import at_once, found, refusal


def ssh_key() -> str:
    key = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return key.decode()


async def test_one_sees_who_he_is_and_where_he_belongs(city):
    ada, bob = await city.person(), await city.person("bob")
    org = await city.org(ada, billing=bob)
    me = await city.get(bob, "/users/me")
    assert (me["id"], me["email"], me["state"]) == (str(bob.id), bob.email, "active")
    assert [(one["org_id"], one["role"], one["personal"]) for one in me["orgs"]] == [
        (str(bob.personal_org), "owner", True), (org, "billing", False),
    ]  # fmt: skip
    changed = found(await city.ask(bob, "PATCH", "/users/me", {"name": "Robert"}), 200)
    assert changed["name"] == (await city.get(bob, "/users/me"))["name"] == "Robert"


async def test_a_session_says_what_the_credential_is(city):
    ada = await city.person()
    session = await city.get(ada, "/auth/session")
    assert (session["kind"], session["id"], session["email"]) == ("user", str(ada.id), ada.email)
    assert session["credential_id"]
    assert refusal(await city.ask(None, "GET", "/auth/session")) == (401, "credential_missing")
    assert refusal(await city.ask("junk", "GET", "/auth/session")) == (401, "credential_invalid")


async def test_an_ssh_key_is_added_listed_and_deleted(city):
    ada = await city.person()
    text = ssh_key()
    key = await city.made(ada, "/users/me/ssh-keys", {"public_key": f"{text} ada@laptop"})
    assert (key["name"], key["public_key"], key["algorithm"]) == ("ada@laptop", f"{text} ada@laptop", "ssh-ed25519")
    again = await city.ask(ada, "POST", "/users/me/ssh-keys", {"public_key": text, "name": "other"})
    assert refusal(again) == (409, "ssh_key_exists")
    assert (await city.get(ada, "/users/me/ssh-keys"))["items"] == [key]
    eve = await city.person("eve")
    path = f"/users/me/ssh-keys/{key['id']}"
    assert refusal(await city.ask(eve, "DELETE", path)) == (404, "ssh_key_missing")
    await city.made(eve, "/users/me/ssh-keys", {"public_key": text})
    found(await city.ask(ada, "DELETE", path), 200)
    assert (await city.get(ada, "/users/me/ssh-keys"))["items"] == []


async def test_ssh_keys_are_limited_also_when_added_at_once(city):
    ada = await city.person()
    city.policy.values["identity.ssh_keys_max"] = 5
    try:
        body = [{"public_key": ssh_key()} for _ in range(20)]
        answers = await at_once(*(city.ask(ada, "POST", "/users/me/ssh-keys", one) for one in body))
    finally:
        del city.policy.values["identity.ssh_keys_max"]
    assert sorted(answer.status_code for answer in answers) == [201] * 5 + [409] * 15


async def test_one_key_added_twenty_times_at_once_is_there_once(city):
    ada, body = await city.person(), {"public_key": ssh_key()}
    answers = await at_once(*(city.ask(ada, "POST", "/users/me/ssh-keys", body) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 19


@pytest.mark.parametrize("bad", ["", "ssh-ed25519 AAAA", "x" * 8193, 'command="x" ssh-ed25519 AAAA', "a\nb", None, 1])
async def test_a_bad_ssh_key_is_refused_with_the_field(city, bad):
    ada = await city.person()
    answer = await city.ask(ada, "POST", "/users/me/ssh-keys", {"public_key": bad})
    assert answer.status_code == 422
    assert answer.json()["error"]["details"][0]["field"] == "public_key"


async def test_a_disabled_user_is_out_within_a_second_and_back_when_enabled(city, superuser):
    root, ada = await city.admin(), await city.person()
    path = f"/platform/users/{ada.id}"
    reason = {"reason": "left the company"}
    assert found(await city.ask(root, "POST", path + "/disable", reason), 200)["state"] == "disabled"
    assert refusal(await city.ask(root, "POST", path + "/disable", reason)) == (409, "state_move_refused")
    await asyncio.sleep(1)
    assert refusal(await city.ask(ada, "GET", "/users/me")) == (403, "account_disabled")
    assert found(await city.ask(root, "POST", path + "/enable", reason), 200)["state"] == "active"
    await city.get(ada, "/users/me")
    events = await superuser.fetch("SELECT name FROM outbox WHERE subject_id = $1 ORDER BY created_at", ada.id)
    assert [event["name"] for event in events] == ["user.created", "user.disabled", "user.enabled"]


async def test_an_admin_does_none_of_this_to_himself(city):
    root = await city.admin()
    path, self_refused = f"/platform/users/{root.id}", (409, "self_change_refused")
    assert refusal(await city.ask(root, "POST", path + "/disable", {"reason": "oops"})) == self_refused
    roles = {"roles": [], "reason": "tired"}
    assert refusal(await city.ask(root, "PUT", path + "/platform-roles", roles)) == self_refused


async def test_platform_roles_are_given_and_taken(city):
    root, ada = await city.admin(), await city.person()
    assert refusal(await city.ask(ada, "GET", "/platform/users")) == (403, "permission_denied")
    path = f"/platform/users/{ada.id}/platform-roles"
    given = {"roles": ["platform-auditor", "platform-auditor"], "reason": "audit season"}
    assert found(await city.ask(root, "PUT", path, given), 200)["platform_roles"] == ["platform-auditor"]
    assert (await city.get(ada, f"/platform/users/{root.id}"))["email"] == root.email
    assert refusal(await city.ask(ada, "POST", f"/platform/users/{root.id}/disable", {"reason": "coup"})) == (
        403, "permission_denied",
    )  # fmt: skip
    found(await city.ask(root, "PUT", path, {"roles": [], "reason": "season over"}), 200)
    await asyncio.sleep(1)
    assert refusal(await city.ask(ada, "GET", "/platform/users")) == (403, "permission_denied")


async def test_users_are_found_by_address_whatever_its_case(city):
    root, ada = await city.admin(PlatformRole.AUDITOR), await city.person()
    found_users = (await city.get(root, "/platform/users", email=ada.email.upper()))["items"]
    assert [user["id"] for user in found_users] == [str(ada.id)]
    assert refusal(await city.ask(root, "GET", f"/platform/users/{ada.personal_org}")) == (404, "user_missing")


async def test_a_revoked_credential_is_refused_within_a_second(city, superuser):
    root, ada = await city.admin(), await city.person()
    jti = (await city.get(ada, "/auth/session"))["credential_id"]
    body = {"credential_id": jti, "reason": "seen in a log"}
    revoked = await city.made(root, "/platform/revoked-credentials", body)
    again = await city.made(root, "/platform/revoked-credentials", body)
    assert again["revoked_at"] == revoked["revoked_at"]
    assert again["expires_at"] >= revoked["expires_at"]
    audited = await superuser.fetchval(
        "SELECT details FROM audit_log WHERE action = 'credential.revoke' AND actor_id = $1", root.id
    )
    assert jti in audited, "the audit log says which credential"
    await asyncio.sleep(1)
    assert refusal(await city.ask(ada, "GET", "/auth/session")) == (401, "credential_revoked")


@pytest.mark.parametrize("bad", ["2020-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2030-01-01T00:00:00", "soon", 5])
async def test_a_revocation_has_an_end_that_makes_sense(city, bad):
    root = await city.admin()
    body = {"credential_id": "x", "reason": "test", "expires_at": bad}
    assert refusal(await city.ask(root, "POST", "/platform/revoked-credentials", body)) == (422, "request_invalid")


async def test_logging_out_revokes_the_access_token_whatever_becomes_of_the_issuer(city):
    ada = await city.person()
    ended = found(await city.ask(ada, "POST", "/auth/logout", {}), 200)
    assert ended == {"access_token_revoked": True, "refresh_token_revoked": False}
    await asyncio.sleep(1)
    assert refusal(await city.ask(ada, "GET", "/auth/session")) == (401, "credential_revoked")


async def test_break_glass_reads_the_keys_now_and_not_too_often(city, superuser):
    root = await city.admin()
    reads = city.issuer.reads
    answers = await at_once(*(city.ask(root, "POST", "/platform/issuer-keys/refresh") for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [200, 429, 429, 429, 429]
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers if answer.status_code == 429)
    assert city.issuer.reads == reads + 1
    done = next(answer.json() for answer in answers if answer.status_code == 200)
    assert done["issuers"] == [{"issuer": city.issuer.url, "key_ids": ["first"]}]
    await superuser.execute("DELETE FROM issuer_key_marks")
    city.issuer.away = True
    try:
        away = await city.ask(root, "POST", "/platform/issuer-keys/refresh")
    finally:
        city.issuer.away = False
    assert refusal(away) == (503, "dependency_unavailable")
    await city.get(root, "/auth/session")
