"""Rehearsals: whom a change would touch, exactly those, and nothing is changed by asking."""

from collections.abc import AsyncIterator

import pytest

import gpuaas.domains.policy.routes  # noqa: F401 - declares the operations asked here
from gpuaas.contracts.permissions import PlatformRole, Role
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.ids import OrgId, ProjectId
from tests.support.written_people import Caller, WrittenPeople, api_for

DAYS = "identity.invitation_days"
ORGS = 6


@pytest.fixture(scope="module")
async def world(db: Database, superuser) -> AsyncIterator[tuple[Caller, list[tuple[OrgId, list[ProjectId]]]]]:
    """Six organisations of two projects each; the first has its own value, and so does its first project; the second's
    first project has its own. One organisation and one project are deleted and must never be counted."""
    people = WrittenPeople()
    people.add("root", platform=[PlatformRole.ADMIN])
    orgs = []
    for n in range(ORGS):
        org = await people.org(superuser, f"o{n}")
        orgs.append((org, [await people.project(superuser, org, f"p{i}") for i in range(2)]))
    people.add("viewer", orgs={orgs[0][0]: Role.VIEWER})
    dead = await people.org(superuser, "dead")
    await people.project(superuser, dead, "p")
    gone = await people.project(superuser, orgs[3][0], "gone")
    await superuser.execute("UPDATE orgs SET deleted_at = now() WHERE id = $1", dead)
    await superuser.execute("UPDATE projects SET deleted_at = now() WHERE id = $1", gone)
    async with api_for(db, people, MemoryPolicy()) as call:
        for path, value in (
            (f"/orgs/{orgs[0][0]}", 30),
            (f"/projects/{orgs[0][1][0]}", 2),
            (f"/projects/{orgs[1][1][0]}", 5),
        ):
            answer = await call("root", "PUT", f"{path}/policy/{DAYS}", {"value": value, "reason": "own value"})
            assert answer.status_code == 200
        yield call, orgs


async def rehearse(call: Caller, path: str = "/policy", who: str = "root", **query):
    """All pages, put together."""
    items, told = [], None
    while True:
        answer = await call(who, "GET", f"{path}/{DAYS}/rehearsal", **query)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        items += page["items"]
        assert told is None or told == (page["touched_orgs"], page["touched_projects"])
        told = page["touched_orgs"], page["touched_projects"]
        if page["next_cursor"] is None:
            return page, items
        query["cursor"] = page["next_cursor"]


async def test_a_change_for_all_touches_those_who_set_nothing(world):
    call, orgs = world
    page, items = await rehearse(call, value="9", limit=4)
    assert (page["before"], page["after"]) == (7, 9)
    assert (page["touched_orgs"], page["touched_projects"]) == (ORGS - 1, 2 * ORGS - 3)
    assert len(items) == len({(i["org_id"], i["project_id"]) for i in items}) == 3 * ORGS - 4
    assert str(orgs[0][0]) not in {i["org_id"] for i in items}
    assert {(i["before"], i["after"], i["held_by"]) for i in items} == {(7, 9, None)}


async def test_a_guardrail_touches_exactly_those_who_are_weaker(world):
    call, orgs = world
    page, items = await rehearse(call, value="10", guardrail="true")
    weaker = [i for i in items if i["before"] == 30]
    assert {(i["project_id"], i["after"], i["held_by"]) for i in weaker} == {
        (None, 10, "global"),
        (str(orgs[0][1][1]), 10, "global"),
    }
    assert str(orgs[0][1][0]) not in {i["project_id"] for i in items}, "2 is stricter than 10 already"
    assert page["touched_orgs"] + page["touched_projects"] == len(items)


async def test_what_an_organisation_thinks_of_touches_its_own_only(world):
    call, orgs = world
    page, items = await rehearse(call, f"/orgs/{orgs[0][0]}/policy", "viewer", value="20")
    assert (page["before"], page["after"], page["touched_orgs"], page["touched_projects"]) == (30, 20, 1, 1)
    assert {i["org_id"] for i in items} == {str(orgs[0][0])}
    same, _ = await rehearse(call, org_id=orgs[0][0], value="20")
    assert (same["touched_orgs"], same["touched_projects"]) == (1, 1)


async def test_taking_away_is_rehearsed_too(world):
    call, orgs = world
    page, items = await rehearse(call, f"/orgs/{orgs[0][0]}/policy", "viewer")
    assert (page["before"], page["after"], len(items)) == (30, 7, 2)
    page, items = await rehearse(call, f"/orgs/{orgs[0][0]}/policy", "viewer", project_id=orgs[0][1][0])
    assert [(i["project_id"], i["before"], i["after"]) for i in items] == [(str(orgs[0][1][0]), 2, 30)]


async def test_a_rehearsal_is_refused_as_the_change_would_be_and_changes_nothing(world, superuser):
    call, orgs = world
    before = await superuser.fetch("SELECT * FROM policy_overrides ORDER BY key, org_id, project_id")
    revision = await superuser.fetchval("SELECT revision FROM policy_revision")
    for path, query, expected in (
        (f"/policy/{DAYS}/rehearsal", {"value": "91"}, "policy_value_refused"),
        (f"/policy/{DAYS}/rehearsal", {"value": "soon"}, "policy_value_refused"),
        (f"/policy/{DAYS}/rehearsal", {}, "policy_override_missing"),
        (f"/orgs/{orgs[0][0]}/policy/rate_limit.auth_burst/rehearsal", {"value": "5"}, "policy_level_refused"),
        (f"/orgs/{orgs[0][0]}/policy/{DAYS}/rehearsal", {"value": "5", "project_id": orgs[1][1][0]}, "project_missing"),
    ):
        answer = await call("root", "GET", path, **query)
        assert answer.json()["error"]["code"] == expected, answer.text
    await rehearse(call, value="1", guardrail="true")
    assert await superuser.fetch("SELECT * FROM policy_overrides ORDER BY key, org_id, project_id") == before
    assert await superuser.fetchval("SELECT revision FROM policy_revision") == revision
