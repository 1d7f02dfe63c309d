"""Organisations and projects through the API."""

from uuid import uuid4

import pytest

from gpuaas.kit.ids import new_id
from tests.support.people import at_once, found, refusal


async def test_an_organisation_lives_from_creation_to_deletion(city):
    ada = await city.person()
    name = f"lab-{new_id().hex}"
    org = await city.made(ada, "/orgs", {"name": name, "title": "The Lab"})
    assert (org["title"], org["personal"], org["role"]) == ("The Lab", False, "owner")
    changed = found(await city.ask(ada, "PATCH", f"/orgs/{org['id']}", {"title": "Lab"}), 200)
    assert (changed["name"], changed["title"], changed["role"]) == (name, "Lab", "owner")
    assert await city.get(ada, f"/orgs/{org['id']}") == changed
    listed = (await city.get(ada, "/orgs"))["items"]
    assert [one["personal"] for one in listed] == [True, False]
    found(await city.ask(ada, "DELETE", f"/orgs/{org['id']}"), 200)
    assert refusal(await city.ask(ada, "GET", f"/orgs/{org['id']}")) == (404, "org_missing")
    assert (await city.made(ada, "/orgs", {"name": name}))["title"] == name


async def test_an_organisation_with_projects_stays_until_they_are_gone(city):
    ada = await city.person()
    org = await city.org(ada)
    project = await city.made(ada, f"/orgs/{org}/projects", {"name": "p"})
    assert refusal(await city.ask(ada, "DELETE", f"/orgs/{org}")) == (409, "org_not_empty")
    found(await city.ask(ada, "DELETE", f"/projects/{project['id']}"), 200)
    found(await city.ask(ada, "DELETE", f"/orgs/{org}"), 200)


async def test_a_personal_organisation_stays(city):
    ada = await city.person()
    assert refusal(await city.ask(ada, "DELETE", f"/orgs/{ada.personal_org}")) == (409, "org_is_personal")
    invited = await city.ask(ada, "POST", f"/orgs/{ada.personal_org}/invitations", {"email": "b@example.com"})
    assert refusal(invited) == (409, "org_is_personal")
    assert refusal(await city.ask(ada, "POST", f"/orgs/{ada.personal_org}/leave")) == (409, "org_is_personal")


async def test_twenty_who_want_one_name_at_once_give_one_organisation(city):
    ada = await city.person()
    name = f"one-{new_id().hex}"
    answers = await at_once(*(city.ask(ada, "POST", "/orgs", {"name": name}) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 19
    assert {refusal(answer)[1] for answer in answers if answer.status_code == 409} == {"org_name_taken"}


async def test_twenty_who_want_one_project_name_at_once_give_one_project(city):
    ada = await city.person()
    org = await city.org(ada)
    answers = await at_once(*(city.ask(ada, "POST", f"/orgs/{org}/projects", {"name": "same"}) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 19
    assert len((await city.get(ada, f"/orgs/{org}/projects"))["items"]) == 1


async def test_a_project_created_while_its_organisation_is_deleted_is_in_one_that_lives_or_is_refused(city, superuser):
    ada = await city.person()
    for _ in range(10):
        org = await city.org(ada)
        created, deleted = await at_once(
            city.ask(ada, "POST", f"/orgs/{org}/projects", {"name": "p"}), city.ask(ada, "DELETE", f"/orgs/{org}")
        )
        assert (created.status_code, deleted.status_code) in {(201, 409), (404, 200)}
    orphans = "SELECT count(*) FROM projects p JOIN orgs o ON o.id = p.org_id WHERE o.deleted_at IS NOT NULL"
    assert await superuser.fetchval(orphans + " AND p.deleted_at IS NULL") == 0


async def test_organisations_of_one_user_are_limited_also_when_created_at_once(city):
    ada, bob = await city.person(), await city.person("bob")
    await city.org(bob, admin=ada)
    city.policy.values["identity.orgs_per_user_max"] = 3
    try:
        wanted = [{"name": f"many-{new_id().hex}"} for _ in range(10)]
        answers = await at_once(*(city.ask(ada, "POST", "/orgs", one) for one in wanted))
        made = [found(answer, 201)["id"] for answer in answers if answer.status_code == 201]
        assert len(made) == 3
        assert {refusal(a) for a in answers if a.status_code != 201} == {(409, "org_limit")}
        found(await city.ask(ada, "DELETE", f"/orgs/{made[0]}"), 200)
        await city.made(ada, "/orgs", {"name": f"again-{new_id().hex}"})
    finally:
        del city.policy.values["identity.orgs_per_user_max"]


@pytest.mark.parametrize(
    ("key", "path", "body", "code"),
    [
        ("identity.projects_per_org_max", "projects", {}, "project_limit"),
        (
            "identity.service_accounts_per_org_max",
            "service-accounts",
            {"role": "viewer", "allowed_operations": ["org_get"]},
            "service_account_limit",
        ),
    ],
)
async def test_what_one_organisation_has_is_limited_also_when_created_at_once(city, key, path, body, code):
    ada = await city.person()
    org, other = await city.org(ada), await city.org(ada)
    city.policy.values[key] = 3
    try:
        wanted = [body | {"name": f"n{n}"} for n in range(10)]
        answers = await at_once(*(city.ask(ada, "POST", f"/orgs/{org}/{path}", one) for one in wanted))
        made = [found(answer, 201)["id"] for answer in answers if answer.status_code == 201]
        assert len(made) == 3
        assert {refusal(a) for a in answers if a.status_code != 201} == {(409, code)}
        at = f"/projects/{made[0]}" if path == "projects" else f"/orgs/{org}/{path}/{made[0]}"
        found(await city.ask(ada, "DELETE", at), 200)
        await city.made(ada, f"/orgs/{org}/{path}", body | {"name": "again"})
        await city.made(ada, f"/orgs/{other}/{path}", body | {"name": "elsewhere"})
    finally:
        del city.policy.values[key]


async def test_a_project_lives_from_creation_to_deletion(city):
    ada = await city.person()
    org = await city.org(ada)
    project = await city.made(ada, f"/orgs/{org}/projects", {"name": "train"})
    assert (project["org_id"], project["title"]) == (org, "train")
    changed = found(await city.ask(ada, "PATCH", f"/projects/{project['id']}", {"name": "train-2"}), 200)
    assert await city.get(ada, f"/projects/{project['id']}") == changed | {"title": "train"}
    found(await city.ask(ada, "DELETE", f"/projects/{project['id']}"), 200)
    assert refusal(await city.ask(ada, "GET", f"/projects/{project['id']}")) == (404, "project_missing")
    assert refusal(await city.ask(ada, "DELETE", f"/projects/{project['id']}")) == (404, "project_missing")
    await city.made(ada, f"/orgs/{org}/projects", {"name": "train-2"})


async def test_projects_are_listed_in_pages_that_meet(city):
    ada = await city.person()
    org = await city.org(ada)
    made = [(await city.made(ada, f"/orgs/{org}/projects", {"name": f"p{n}"}))["id"] for n in range(7)]
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = await city.get(ada, f"/orgs/{org}/projects", limit=3, **cursor)
        seen += [project["id"] for project in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert seen == made


async def test_a_cursor_of_another_list_or_person_is_refused(city):
    ada, eve = await city.person(), await city.person("eve")
    org = await city.org(ada, viewer=eve)
    for n in range(3):
        await city.made(ada, f"/orgs/{org}/projects", {"name": f"p{n}"})
    cursor = (await city.get(ada, f"/orgs/{org}/projects", limit=1))["next_cursor"]
    assert refusal(await city.ask(eve, "GET", f"/orgs/{org}/projects", cursor=cursor)) == (400, "cursor_refused")
    assert refusal(await city.ask(ada, "GET", f"/orgs/{org}/members", cursor=cursor)) == (400, "cursor_refused")
    for forged in ("", "x", cursor[:-2] + "AA", "é"):
        assert refusal(await city.ask(ada, "GET", f"/orgs/{org}/projects", cursor=forged))[0] in (400, 422)


async def test_what_is_not_yours_is_as_if_it_were_not(city):
    ada, eve = await city.person(), await city.person("eve")
    org = await city.org(ada)
    project = (await city.made(ada, f"/orgs/{org}/projects", {"name": "p"}))["id"]
    for method, path, body in (
        ("GET", f"/orgs/{org}", None), ("PATCH", f"/orgs/{org}", {"title": "mine"}), ("DELETE", f"/orgs/{org}", None),
        ("GET", f"/orgs/{org}/projects", None), ("POST", f"/orgs/{org}/projects", {"name": "q"}),
    ):  # fmt: skip
        stranger = await city.ask(eve, method, path, body)
        absent = await city.ask(eve, method, path.replace(org, str(uuid4())), body)
        assert refusal(stranger) == refusal(absent) == (404, "org_missing")
    for method in ("GET", "DELETE"):
        assert refusal(await city.ask(eve, method, f"/projects/{project}")) == (404, "project_missing")


@pytest.mark.parametrize("bad", ["", "A", "-a", "a-", "a_b", "a" * 64, "a\n", "a\u202eb", "ä", " a", "a b", None, 7])
async def test_a_bad_name_is_refused_and_the_field_is_said(city, bad):
    ada = await city.person()
    answer = await city.ask(ada, "POST", "/orgs", {"name": bad})
    assert refusal(answer) == (422, "request_invalid")
    assert answer.json()["error"]["details"][0]["field"] == "name"


@pytest.mark.parametrize("bad", ["", " ", "x" * 121, "a\nb", "a\x00b", "a\x1b[31m", "\u202eevil", "a\u2028b", 1, []])
async def test_a_bad_title_is_refused(city, bad):
    ada = await city.person()
    answer = await city.ask(ada, "POST", "/orgs", {"name": "fine", "title": bad})
    assert refusal(answer)[0] in (400, 422)


@pytest.mark.parametrize("bad", ["x", "1", "%00", "a" * 3000, "00000000-0000-0000-0000-00000000000g", "..", "null"])
async def test_a_malformed_id_is_refused(city, bad):
    ada = await city.person()
    assert refusal(await city.ask(ada, "GET", f"/orgs/{bad}/projects"))[0] in (404, 422)
    assert refusal(await city.ask(ada, "GET", f"/projects/{bad}/members"))[0] in (404, 422)
