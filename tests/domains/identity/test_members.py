"""Members of organisations and projects, and invitations, through the API."""

from uuid import uuid4

import pytest

from tests.support.people import at_once, found, refusal


async def test_members_are_listed_with_their_roles(city):
    ada, bob = await city.person(), await city.person("bob")
    org = await city.org(ada, member=bob)
    listed = (await city.get(bob, f"/orgs/{org}/members"))["items"]
    assert {(one["email"], one["role"]) for one in listed} == {(ada.email, "owner"), (bob.email, "member")}


async def test_two_owners_who_leave_at_once_leave_one_owner(city, superuser):
    for _ in range(8):
        ada, bob = await city.person(), await city.person("bob")
        org = await city.org(ada, owner=bob)
        answers = await at_once(*(city.ask(who, "POST", f"/orgs/{org}/leave") for who in (ada, bob)))
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        assert [refusal(answer) for answer in answers if answer.status_code == 409] == [(409, "last_owner")]
        owners = "SELECT count(*) FROM org_members WHERE org_id = $1 AND role = 'owner'"
        assert await superuser.fetchval(owners, org) == 1


async def test_owners_who_demote_and_remove_each_other_at_once_leave_one_owner(city, superuser):
    for _ in range(5):
        ada, bob = await city.person(), await city.person("bob")
        org = await city.org(ada, owner=bob)
        await at_once(
            city.ask(ada, "PATCH", f"/orgs/{org}/members/{bob.id}", {"role": "viewer"}),
            city.ask(bob, "DELETE", f"/orgs/{org}/members/{ada.id}"),
            city.ask(ada, "PATCH", f"/orgs/{org}/members/{ada.id}", {"role": "member"}),
            city.ask(bob, "POST", f"/orgs/{org}/leave"),
        )
        owners = "SELECT count(*) FROM org_members WHERE org_id = $1 AND role = 'owner'"
        assert await superuser.fetchval(owners, org) >= 1


async def test_the_last_owner_can_neither_leave_nor_be_demoted(city):
    ada, bob = await city.person(), await city.person("bob")
    org = await city.org(ada, admin=bob)
    me = f"/orgs/{org}/members/{ada.id}"
    assert refusal(await city.ask(ada, "POST", f"/orgs/{org}/leave")) == (409, "last_owner")
    assert refusal(await city.ask(ada, "DELETE", me)) == (409, "last_owner")
    assert refusal(await city.ask(ada, "PATCH", me, {"role": "admin"})) == (409, "last_owner")
    found(await city.ask(ada, "PATCH", f"/orgs/{org}/members/{bob.id}", {"role": "owner"}), 200)
    assert found(await city.ask(ada, "PATCH", me, {"role": "admin"}), 200)["role"] == "admin"


async def test_nobody_touches_a_role_above_his_own(city):
    ada, bob, eve = await city.person(), await city.person("bob"), await city.person("eve")
    org = await city.org(ada, admin=bob, member=eve)
    above = (403, "role_above_yours")
    assert refusal(await city.ask(bob, "DELETE", f"/orgs/{org}/members/{ada.id}")) == above
    assert refusal(await city.ask(bob, "PATCH", f"/orgs/{org}/members/{ada.id}", {"role": "member"})) == above
    assert refusal(await city.ask(bob, "PATCH", f"/orgs/{org}/members/{bob.id}", {"role": "owner"})) == above
    assert refusal(await city.ask(bob, "PATCH", f"/orgs/{org}/members/{eve.id}", {"role": "owner"})) == above
    invited = await city.ask(bob, "POST", f"/orgs/{org}/invitations", {"email": "x@example.com", "role": "owner"})
    assert refusal(invited) == above
    assert found(await city.ask(bob, "PATCH", f"/orgs/{org}/members/{eve.id}", {"role": "admin"}), 200)


async def test_a_member_may_leave_but_not_put_others_out(city):
    ada, bob = await city.person(), await city.person("bob")
    org = await city.org(ada, viewer=bob)
    assert refusal(await city.ask(bob, "DELETE", f"/orgs/{org}/members/{ada.id}")) == (403, "permission_denied")
    found(await city.ask(bob, "POST", f"/orgs/{org}/leave"), 200)
    assert org not in [one["org_id"] for one in (await city.get(bob, "/users/me"))["orgs"]]


async def test_a_removed_member_loses_his_roles_in_projects_and_the_invitations_he_sent(city, superuser):
    ada, bob = await city.person(), await city.person("bob")
    org = await city.org(ada, admin=bob)
    project = (await city.made(ada, f"/orgs/{org}/projects", {"name": "p"}))["id"]
    found(await city.ask(ada, "PUT", f"/projects/{project}/members/{bob.id}", {"role": "admin"}), 200)
    await city.made(bob, f"/orgs/{org}/invitations", {"email": "friend@example.com"})
    found(await city.ask(ada, "DELETE", f"/orgs/{org}/members/{bob.id}"), 200)
    assert (await city.get(ada, f"/projects/{project}/members"))["items"] == []
    assert [one["state"] for one in (await city.get(ada, f"/orgs/{org}/invitations"))["items"]][-1] == "revoked"
    events = await superuser.fetch("SELECT name FROM outbox WHERE org_id = $1 ORDER BY id", org)
    assert "member.removed" in [event["name"] for event in events]


async def test_a_role_in_a_project_adds_to_the_role_in_the_organisation(city):
    ada, bob, eve = await city.person(), await city.person("bob"), await city.person("eve")
    org = await city.org(ada, viewer=bob, viewer2=eve)
    project = (await city.made(ada, f"/orgs/{org}/projects", {"name": "p"}))["id"]
    change = ("PATCH", f"/projects/{project}", {"title": "Bob's"})
    assert refusal(await city.ask(bob, *change)) == (403, "permission_denied")
    found(await city.ask(ada, "PUT", f"/projects/{project}/members/{bob.id}", {"role": "admin"}), 200)
    assert found(await city.ask(bob, *change), 200)["title"] == "Bob's"
    found(await city.ask(bob, "PUT", f"/projects/{project}/members/{eve.id}", {"role": "member"}), 200)
    mine = await city.get(bob, "/users/me")
    assert [(one["name"], one["role"]) for one in mine["projects"]] == [("p", "admin")]
    found(await city.ask(ada, "DELETE", f"/projects/{project}/members/{bob.id}"), 200)
    assert refusal(await city.ask(ada, "DELETE", f"/projects/{project}/members/{bob.id}")) == (404, "member_missing")


async def test_a_project_has_only_members_of_its_organisation(city):
    ada, eve = await city.person(), await city.person("eve")
    org = await city.org(ada)
    project = (await city.made(ada, f"/orgs/{org}/projects", {"name": "p"}))["id"]
    for stranger in (eve.id, uuid4()):
        answer = await city.ask(ada, "PUT", f"/projects/{project}/members/{stranger}", {"role": "member"})
        assert refusal(answer) == (404, "member_missing")
    answer = await city.ask(ada, "PUT", f"/projects/{project}/members/{ada.id}", {"role": "owner"})
    assert refusal(answer) == (422, "request_invalid")


async def test_an_invitation_is_accepted_once_however_many_try(city, superuser):
    ada, bob = await city.person(), await city.person("bob")
    org = await city.org(ada)
    invited = await city.made(ada, f"/orgs/{org}/invitations", {"email": bob.email.upper(), "role": "member"})
    body = {"token": invited["token"]}
    answers = await at_once(*(city.ask(bob, "POST", "/invitations/accept", body) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] + [404] * 19
    joined = "SELECT count(*) FROM outbox WHERE org_id = $1 AND name = 'member.joined'"
    assert await superuser.fetchval(joined, org) == 1
    audited = "SELECT count(*) FROM audit_log WHERE org_id = $1 AND action = 'invitation.accept'"
    assert await superuser.fetchval(audited, org) == 1
    stored = await superuser.fetchval("SELECT details::text FROM audit_log WHERE action = 'invitation.accept' LIMIT 1")
    assert invited["token"] not in stored


async def test_an_invitation_is_for_the_address_it_was_sent_to_and_a_verified_one(city):
    ada, eve = await city.person(), await city.person("eve")
    org = await city.org(ada)
    unsure = await city.person("unsure", email_verified=False)
    for_eve = await city.made(ada, f"/orgs/{org}/invitations", {"email": eve.email})
    for_unsure = await city.made(ada, f"/orgs/{org}/invitations", {"email": unsure.email})
    not_yours = (403, "invitation_not_for_you")
    assert refusal(await city.ask(ada, "POST", "/invitations/accept", {"token": for_eve["token"]})) == not_yours
    assert refusal(await city.ask(unsure, "POST", "/invitations/accept", {"token": for_unsure["token"]})) == not_yours
    found(await city.ask(eve, "POST", "/invitations/accept", {"token": for_eve["token"]}), 200)


async def test_an_invitation_ends_by_time_revocation_and_deletion_of_its_organisation(city, superuser):
    ada, bob = await city.person(), await city.person("bob")
    missing = (404, "invitation_missing")

    async def accept(token):
        return refusal(await city.ask(bob, "POST", "/invitations/accept", {"token": token}))

    org = await city.org(ada)
    first = await city.made(ada, f"/orgs/{org}/invitations", {"email": bob.email})
    again = await city.ask(ada, "POST", f"/orgs/{org}/invitations", {"email": bob.email.upper()})
    assert refusal(again) == (409, "invitation_exists")
    await superuser.execute("UPDATE invitations SET expires_at = now() WHERE org_id = $1", org)
    assert await accept(first["token"]) == missing
    second = await city.made(ada, f"/orgs/{org}/invitations", {"email": bob.email})
    found(await city.ask(ada, "DELETE", f"/orgs/{org}/invitations/{second['id']}"), 200)
    assert refusal(await city.ask(ada, "DELETE", f"/orgs/{org}/invitations/{second['id']}")) == missing
    assert await accept(second["token"]) == missing
    states = [one["state"] for one in (await city.get(ada, f"/orgs/{org}/invitations"))["items"]]
    assert states == ["revoked", "revoked"]
    third = await city.made(ada, f"/orgs/{org}/invitations", {"email": bob.email})
    found(await city.ask(ada, "DELETE", f"/orgs/{org}"), 200)
    assert await accept(third["token"]) == (404, "org_missing")
    assert await accept("gpuaas_inv_never") == missing


async def test_who_is_a_member_is_not_invited_again(city):
    ada, bob = await city.person(), await city.person("bob")
    org = await city.org(ada, member=bob)
    answer = await city.ask(ada, "POST", f"/orgs/{org}/invitations", {"email": bob.email})
    assert refusal(answer) == (409, "member_exists")


@pytest.mark.parametrize(
    "bad", ["", "a", "a@b", "@example.com", "a b@example.com", "a@exa mple.com", "a@example.com\n", "ä@example.com",
            "a" * 250 + "@e.io", "a\x00@example.com", None, 3],
)  # fmt: skip
async def test_a_bad_address_is_refused(city, bad):
    ada = await city.person()
    org = await city.org(ada)
    assert refusal(await city.ask(ada, "POST", f"/orgs/{org}/invitations", {"email": bad}))[0] in (400, 422)
