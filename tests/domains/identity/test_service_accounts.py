"""Service accounts and their keys through the API, and as credentials."""

import asyncio

import pytest

from gpuaas.domains.identity.authority.service import service_account_by_key
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.errors import Unauthenticated
from tests.support.people import at_once, found, refusal


async def account(city, who, org, **wanted):
    body = {"name": "robot", "role": "member", "allowed_operations": ["*"]} | wanted
    return await city.made(who, f"/orgs/{org}/service-accounts", body)


async def key_of(city, who, org, made, **wanted):
    return await city.made(who, f"/orgs/{org}/service-accounts/{made['id']}/keys", wanted)


async def test_a_service_account_calls_what_its_role_and_its_list_allow(city):
    ada = await city.person()
    org = await city.org(ada)
    made = await account(city, ada, org, allowed_operations=["project_list", "project_create", "session_get"])
    key = (await key_of(city, ada, org, made))["key"]
    session = await city.get(key, "/auth/session")
    assert (session["kind"], session["name"]) == ("service_account", "robot")
    assert (await city.get(key, f"/orgs/{org}/projects"))["items"] == []
    assert refusal(await city.ask(key, "GET", f"/orgs/{org}")) == (403, "operation_not_in_allow_list")
    created = await city.ask(key, "POST", f"/orgs/{org}/projects", {"name": "p"})
    assert refusal(created) == (403, "permission_denied")
    path = f"/orgs/{org}/service-accounts/{made['id']}"
    found(await city.ask(ada, "PATCH", path, {"role": "admin"}), 200)
    await city.made(key, f"/orgs/{org}/projects", {"name": "p"})


async def test_a_service_account_of_a_project_reaches_nothing_else(city):
    ada = await city.person()
    org = await city.org(ada)
    mine, other = [(await city.made(ada, f"/orgs/{org}/projects", {"name": n}))["id"] for n in ("mine", "other")]
    made = await account(city, ada, org, project_id=mine, role="admin")
    key = (await key_of(city, ada, org, made))["key"]
    assert (await city.get(key, f"/projects/{mine}"))["name"] == "mine"
    assert refusal(await city.ask(key, "GET", f"/projects/{other}")) == (404, "project_missing")
    assert refusal(await city.ask(key, "GET", f"/orgs/{org}")) == (404, "org_missing")
    found(await city.ask(ada, "DELETE", f"/projects/{mine}"), 200)
    await asyncio.sleep(1)
    assert refusal(await city.ask(key, "GET", "/auth/session")) == (401, "credential_invalid")


async def test_a_service_account_cannot_do_what_is_a_person_s_own(city):
    ada = await city.person()
    org = await city.org(ada)
    key = (await key_of(city, ada, org, await account(city, ada, org)))["key"]
    assert refusal(await city.ask(key, "GET", "/users/me")) == (403, "permission_denied")
    assert refusal(await city.ask(key, "POST", "/orgs", {"name": "its-own"})) == (403, "permission_denied")
    assert refusal(await city.ask(key, "POST", "/auth/logout", {})) == (403, "permission_denied")


async def test_a_machine_makes_no_machine_stronger_than_itself(city):
    ada = await city.person()
    org = await city.org(ada)
    ops = ["service_account_create", "service_account_key_create", "service_account_update", "project_list"]
    weak = await account(city, ada, org, role="admin", allowed_operations=ops)
    strong = await account(city, ada, org, name="strong", role="admin")
    key = (await key_of(city, ada, org, weak))["key"]
    body = {"name": "child", "role": "admin", "allowed_operations": ["*"]}
    beyond = (403, "operation_not_in_allow_list")
    assert refusal(await city.ask(key, "POST", f"/orgs/{org}/service-accounts", body)) == beyond
    path = f"/orgs/{org}/service-accounts/{strong['id']}"
    assert refusal(await city.ask(key, "POST", path + "/keys", {})) == beyond
    assert refusal(await city.ask(key, "PATCH", path, {"name": "x"})) == beyond
    await city.made(key, f"/orgs/{org}/service-accounts", body | {"allowed_operations": ["project_list"]})


async def test_an_admin_may_give_admin_and_nobody_gives_owner(city):
    ada, bob, eve = await city.person(), await city.person("bob"), await city.person("eve")
    org = await city.org(ada, admin=bob, member=eve)
    await account(city, bob, org, role="admin")
    path = f"/orgs/{org}/service-accounts"
    body = {"name": "x", "role": "owner", "allowed_operations": ["*"]}
    assert refusal(await city.ask(ada, "POST", path, body)) == (422, "request_invalid")
    assert refusal(await city.ask(eve, "POST", path, body | {"role": "viewer"})) == (403, "permission_denied")


async def test_an_allow_list_names_operations_that_exist(city):
    ada = await city.person()
    org = await city.org(ada)
    path = f"/orgs/{org}/service-accounts"
    body = {"name": "robot", "role": "viewer"}
    answer = await city.ask(ada, "POST", path, body | {"allowed_operations": ["project_list", "world_end"]})
    assert refusal(answer) == (422, "operation_unknown")
    assert "world_end" in answer.json()["error"]["details"][0]["reason"]
    for bad in ([], ["A B"], ["x" * 101], ["*"] * 501, None, "x"):
        assert refusal(await city.ask(ada, "POST", path, body | {"allowed_operations": bad}))[0] in (400, 422)


async def test_twenty_accounts_of_one_name_at_once_give_one(city):
    ada = await city.person()
    org = await city.org(ada)
    body = {"name": "robot", "role": "viewer", "allowed_operations": ["*"]}
    answers = await at_once(*(city.ask(ada, "POST", f"/orgs/{org}/service-accounts", body) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 19


async def test_a_key_is_shown_once_and_stored_nowhere(city, superuser):
    ada = await city.person()
    org = await city.org(ada)
    made = await account(city, ada, org)
    path = f"/orgs/{org}/service-accounts/{made['id']}/keys"
    first = found(await city.ask(ada, "POST", path, {}, key="once"), 201)
    replayed = found(await city.ask(ada, "POST", path, {}, key="once"), 201)
    assert replayed == first | {"key": None, "already_shown": True}
    assert first["key"].startswith(first["hint"])
    listed = (await city.get(ada, path))["items"]
    assert [one["id"] for one in listed] == [first["id"]]
    for table, column in (("service_account_keys", "t.*"), ("idempotency_keys", "t.*"), ("audit_log", "t.*")):
        rows = await superuser.fetch(f"SELECT {column} FROM {table} t")
        assert not any(first["key"] in str(value) for row in rows for value in row.values())


async def test_a_revoked_key_is_refused_within_a_second(city):
    ada = await city.person()
    org = await city.org(ada)
    made = await account(city, ada, org)
    key = await key_of(city, ada, org, made)
    await city.get(key["key"], "/auth/session")
    path = f"/orgs/{org}/service-accounts/{made['id']}/keys/{key['id']}"
    assert found(await city.ask(ada, "DELETE", path), 200)["revoked_at"]
    await asyncio.sleep(1)
    assert refusal(await city.ask(key["key"], "GET", "/auth/session")) == (401, "credential_revoked")
    assert refusal(await city.ask(ada, "POST", path + "/rotate", {})) == (404, "service_account_key_missing")


async def test_a_rotated_key_works_on_for_the_overlap_then_ends(city):
    ada = await city.person()
    org = await city.org(ada)
    made = await account(city, ada, org)
    old = await key_of(city, ada, org, made)
    path = f"/orgs/{org}/service-accounts/{made['id']}/keys/{old['id']}/rotate"
    new = found(await city.ask(ada, "POST", path, {"overlap_seconds": 1}), 201)
    await city.get(old["key"], "/auth/session")
    await city.get(new["key"], "/auth/session")
    await asyncio.sleep(2)
    assert refusal(await city.ask(old["key"], "GET", "/auth/session")) == (401, "credential_expired")
    await city.get(new["key"], "/auth/session")


async def test_keys_are_bounded_in_number_and_life_by_policy(city):
    ada = await city.person()
    org = await city.org(ada)
    made = await account(city, ada, org)
    path = f"/orgs/{org}/service-accounts/{made['id']}/keys"
    assert refusal(await city.ask(ada, "POST", path, {"expires_in_days": 366})) == (422, "request_invalid")
    answers = await at_once(*(city.ask(ada, "POST", path, {"expires_in_days": 1}) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [201] * 10 + [409] * 10
    one = next(answer.json() for answer in answers if answer.status_code == 201)
    found(await city.ask(ada, "POST", f"{path}/{one['id']}/rotate", {"overlap_seconds": 0}), 201)
    assert refusal(await city.ask(ada, "POST", path, {})) == (409, "service_account_key_limit")


async def test_the_keys_of_a_deleted_account_stop_working(city):
    ada = await city.person()
    org = await city.org(ada)
    made = await account(city, ada, org)
    key = (await key_of(city, ada, org, made))["key"]
    await city.get(key, "/auth/session")
    path = f"/orgs/{org}/service-accounts/{made['id']}"
    found(await city.ask(ada, "DELETE", path), 200)
    assert refusal(await city.ask(ada, "GET", path)) == (404, "service_account_missing")
    await asyncio.sleep(1)
    assert refusal(await city.ask(key, "GET", "/auth/session")) == (401, "credential_invalid")
    await account(city, ada, org)


@pytest.mark.parametrize("weakened", ["deleted", "lowered"])
async def test_the_invitations_of_an_account_end_with_its_power_to_send_them(city, weakened):
    ada, eve = await city.person(), await city.person("eve")
    org = await city.org(ada)
    made = await city.made(
        ada, f"/orgs/{org}/service-accounts", {"name": "inviter", "role": "admin", "allowed_operations": ["*"]}
    )
    key = (await key_of(city, ada, org, made))["key"]
    sent = await city.made(key, f"/orgs/{org}/invitations", {"email": eve.email, "role": "admin"})
    path = f"/orgs/{org}/service-accounts/{made['id']}"
    how = ("DELETE", path) if weakened == "deleted" else ("PATCH", path, {"role": "viewer"})
    found(await city.ask(ada, *how), 200)
    accepted = await city.ask(eve, "POST", "/invitations/accept", {"token": sent["token"]})
    assert refusal(accepted) == (404, "invitation_missing")


async def test_a_service_account_is_found_by_its_key_for_the_issuer(city, db):
    ada = await city.person()
    org = await city.org(ada)
    made = await account(city, ada, org)
    key = (await key_of(city, ada, org, made))["key"]
    async with db.read(Sight(PLATFORM)) as tx:
        assert str((await service_account_by_key(tx, key)).id) == made["id"]
        for bad in (key[:-1], "gpuaas_sk_", "", key[len("gpuaas_sk_") :]):
            with pytest.raises(Unauthenticated):
                await service_account_by_key(tx, bad)


async def test_the_use_of_a_key_is_noted(city):
    ada = await city.person()
    org = await city.org(ada)
    made = await account(city, ada, org)
    key = await key_of(city, ada, org, made)
    await city.get(key["key"], "/auth/session")
    listed = (await city.get(ada, f"/orgs/{org}/service-accounts/{made['id']}/keys"))["items"]
    assert listed[0]["last_used_at"] is not None


async def test_accounts_of_another_organisation_are_not_there(city):
    ada, eve = await city.person(), await city.person("eve")
    org, other = await city.org(ada), await city.org(eve)
    made = await account(city, ada, org)
    path = f"/orgs/{other}/service-accounts/{made['id']}"
    missing = (404, "service_account_missing")
    assert refusal(await city.ask(eve, "GET", path)) == missing
    assert refusal(await city.ask(eve, "POST", path + "/keys", {})) == missing
    assert refusal(await city.ask(eve, "DELETE", path)) == missing
    project = (await city.made(ada, f"/orgs/{org}/projects", {"name": "p"}))["id"]
    body = {"name": "x", "role": "viewer", "allowed_operations": ["*"], "project_id": project}
    answer = await city.ask(eve, "POST", f"/orgs/{other}/service-accounts", body)
    assert refusal(answer) == (404, "project_missing")
