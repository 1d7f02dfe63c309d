"""Policy through the API: who may set what where, what is refused and why, and what is told of it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

import gpuaas.domains.policy.routes  # noqa: F401 - declares the operations asked here
from gpuaas.contracts.permissions import PlatformRole, Role
from gpuaas.contracts.policy_keys import POLICY_KEYS
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.ids import OrgId, ProjectId, new_id
from tests.support.written_people import Caller, WrittenPeople, api_for

DAYS, KEYS, RATE = "identity.invitation_days", "identity.service_account_keys_max", "rate_limit.default_burst"


@dataclass
class World:
    call: Caller
    org: OrgId
    other: OrgId
    project: ProjectId
    people: WrittenPeople

    async def put(self, who: str, path: str, value: object, *, guardrail: bool = False, reason: str = "because"):
        return await self.call(who, "PUT", path, {"value": value, "guardrail": guardrail, "reason": reason})


@pytest.fixture(scope="module")
async def api(db: Database, superuser) -> AsyncIterator[tuple[Caller, WrittenPeople]]:
    people = WrittenPeople()
    async with api_for(db, people, MemoryPolicy()) as call:
        yield call, people


@pytest.fixture
async def world(api: tuple[Caller, WrittenPeople], superuser) -> World:
    """Two organisations nobody has set anything for, and nothing set for all."""
    call, people = api
    await superuser.execute("DELETE FROM policy_overrides")
    org, other = await people.org(superuser, f"a-{new_id().hex}"), await people.org(superuser, f"b-{new_id().hex}")
    project = await people.project(superuser, org, "p")
    people.add("root", platform=[PlatformRole.ADMIN])
    people.add("auditor", platform=[PlatformRole.AUDITOR])
    people.add("admin", orgs={org: Role.ADMIN})
    people.add("viewer", orgs={org: Role.VIEWER})
    people.add("lead", projects={project: Role.ADMIN})
    people.add("stranger", orgs={other: Role.OWNER})
    return World(call, org, other, project, people)


def code(answer) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


async def test_a_value_is_set_read_explained_and_taken_away(world: World):
    path = f"/orgs/{world.org}/policy/{DAYS}"
    assert (await world.call("viewer", "GET", path)).json()["origin"] == "default"
    answer = await world.put("admin", path, 3, reason="short ones only")
    assert (answer.status_code, answer.json()["value"], answer.json()["origin"]) == (200, 3, "org")
    told = (await world.call("lead", "GET", f"/projects/{world.project}/policy/{DAYS}/explanation")).json()
    assert [(la["level"], la["value"], la["decides"]) for la in told["layers"]] == [
        ("default", 7, False),
        ("global", None, False),
        ("org", 3, True),
        ("project", None, False),
    ]
    assert (told["layers"][2]["set_by"], told["layers"][2]["reason"]) == ("admin@example.com", "short ones only")
    assert told["layers"][2]["set_at"] is not None
    gone = await world.call("admin", "DELETE", path, reason="no longer")
    assert (gone.json()["value"], gone.json()["origin"]) == (7, "default")
    assert code(await world.call("admin", "DELETE", path, reason="no longer")) == (404, "policy_override_missing")


async def test_a_change_is_audited_with_its_reason_and_told(world: World, superuser):
    answer = await world.put("admin", f"/orgs/{world.org}/policy/{DAYS}", 4, reason="fewer")
    correlation = answer.headers["x-correlation-id"]
    audit = await superuser.fetchrow("SELECT * FROM audit_log WHERE correlation_id = $1", correlation)
    assert (audit["action"], audit["org_id"]) == ("policy.set", world.org)
    for part in (DAYS, "fewer", '"before": 7'):
        assert part in audit["details"]
    event = await superuser.fetchrow("SELECT * FROM outbox WHERE correlation_id = $1", correlation)
    assert (event["name"], event["org_id"]) == ("policy.changed", world.org)
    assert DAYS in event["payload"]


@pytest.mark.parametrize(
    ("who", "path", "expected"),
    [
        ("viewer", "/orgs/{org}/policy/" + DAYS, (403, "permission_denied")),
        ("stranger", "/orgs/{org}/policy/" + DAYS, (404, "org_missing")),
        ("stranger", "/projects/{project}/policy/" + DAYS, (404, "project_missing")),
        ("lead", "/orgs/{org}/policy/" + DAYS, (404, "org_missing")),
        ("admin", "/policy/" + DAYS, (403, "permission_denied")),
        ("auditor", "/policy/" + DAYS, (403, "permission_denied")),
        ("auditor", "/orgs/{org}/policy/" + DAYS, (403, "permission_denied")),
        ("admin", "/orgs/{org}/policy/" + RATE, (403, "policy_platform_only")),
        ("admin", "/projects/{project}/policy/" + RATE, (403, "policy_platform_only")),
        ("root", "/orgs/{org}/policy/" + RATE, (422, "policy_level_refused")),
        ("admin", "/projects/{project}/policy/audit.export_allowed", (422, "policy_level_refused")),
        ("admin", "/orgs/{org}/policy/no.such_policy", (404, "policy_key_missing")),
        ("admin", "/orgs/{org}/policy/Not-a-Name", (422, "request_invalid")),
    ],
)
async def test_who_may_not_set_what(world: World, who, path, expected):
    answer = await world.put(who, path.format(org=world.org, project=world.project), 5)
    assert code(answer) == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (DAYS, 0, "policy_value_refused"),
        (DAYS, 91, "policy_value_refused"),
        (DAYS, "7", "policy_value_refused"),
        (DAYS, True, "policy_value_refused"),
        (DAYS, 2**60, "request_invalid"),
        (DAYS, 1.5, "request_invalid"),
        (DAYS, None, "request_invalid"),
        (DAYS, [1], "request_invalid"),
        (DAYS, "x" * 101, "request_invalid"),
        ("audit.export_allowed", 1, "policy_value_refused"),
        ("audit.client_ip_shown", "some", "policy_value_refused"),
    ],
)
async def test_a_value_that_does_not_fit_is_refused_and_nothing_is_set(world: World, name, value, expected, superuser):
    answer = await world.put("admin", f"/orgs/{world.org}/policy/{name}", value)
    assert code(answer) == (422, expected)
    if expected == "policy_value_refused":
        assert answer.json()["error"]["details"][0]["field"] == "value"
    assert await superuser.fetchval("SELECT count(*) FROM policy_overrides") == 0


@pytest.mark.parametrize("reason", [None, "", "ab", "x" * 501, "two\nlines", " padded", "bi\u202edi"])
async def test_a_change_needs_a_reason_that_can_be_read(world: World, reason):
    body = {"value": 5} | ({"reason": reason} if reason is not None else {})
    assert code(await world.call("admin", "PUT", f"/orgs/{world.org}/policy/{DAYS}", body)) == (422, "request_invalid")
    assert code(await world.call("admin", "DELETE", f"/orgs/{world.org}/policy/{DAYS}")) == (422, "request_invalid")


async def test_a_guardrail_refuses_what_is_weaker_and_says_so(world: World):
    await world.put("root", f"/policy/{DAYS}", 10, guardrail=True)
    for path in (f"/orgs/{world.org}/policy/{DAYS}", f"/projects/{world.project}/policy/{DAYS}"):
        answer = await world.put("admin", path, 11)
        assert code(answer) == (409, "policy_guardrail")
        said = answer.json()["error"]["details"][0]["reason"]
        assert "level global" in said
        assert "10" in said
        assert (await world.put("admin", path, 10)).status_code == 200
        assert (await world.put("root", path, 30)).status_code == 409, "the platform, too, changes the guardrail itself"


async def test_a_guardrail_that_comes_later_holds_what_is_weaker_and_lets_go_again(world: World):
    path = f"/orgs/{world.org}/policy/{DAYS}"
    await world.put("admin", path, 30)
    await world.put("root", f"/policy/{DAYS}", 10, guardrail=True)
    held = (await world.call("viewer", "GET", path)).json()
    assert (held["value"], held["origin"], held["held_by"], held["guardrail"]) == (
        10,
        "org",
        "global",
        {"level": "global", "value": 10},
    )
    told = (await world.call("viewer", "GET", path + "/explanation")).json()
    assert [la["too_weak"] for la in told["layers"]] == [False, False, True]
    assert told["layers"][1]["set_by"] == "platform"
    await world.call("root", "DELETE", f"/policy/{DAYS}", reason="lifted")
    assert (await world.call("viewer", "GET", path)).json()["value"] == 30


async def test_a_guardrail_set_from_above_is_not_the_organisations_to_change(world: World):
    path = f"/orgs/{world.org}/policy/{DAYS}"
    await world.put("root", path, 10, guardrail=True)
    for value in (20, 5):
        assert code(await world.put("admin", path, value)) == (409, "policy_guardrail")
    assert code(await world.call("admin", "DELETE", path, reason="let go")) == (409, "policy_guardrail")
    of_project = f"/projects/{world.project}/policy/{KEYS}"
    await world.put("admin", of_project, 3, guardrail=True)
    assert code(await world.call("lead", "DELETE", of_project, reason="let go")) == (409, "policy_guardrail")
    assert (await world.call("admin", "DELETE", of_project, reason="let go")).status_code == 200
    assert (await world.put("lead", of_project, 4)).status_code == 200


async def test_a_guardrail_and_a_weaker_value_at_once_never_both_hold(world: World):
    path = f"/orgs/{world.org}/policy/{DAYS}"
    for _ in range(5):
        guard, weak = await asyncio.gather(
            world.put("root", f"/policy/{DAYS}", 10, guardrail=True), world.put("admin", path, 60)
        )
        assert guard.status_code == 200
        assert weak.status_code in {200, 409}
        assert (await world.call("viewer", "GET", path)).json()["value"] == 10
        await world.call("root", "DELETE", f"/policy/{DAYS}", reason="again")
        if weak.status_code == 200:
            await world.call("admin", "DELETE", path, reason="again")


async def test_lists_show_every_policy_once_in_pages(world: World):
    for who, path in (
        ("viewer", f"/orgs/{world.org}/policy"),
        ("lead", f"/projects/{world.project}/policy"),
        ("auditor", "/policy"),
        ("viewer", "/policy-keys"),
    ):
        names, cursor = [], None
        while True:
            page = (await world.call(who, "GET", path, limit=7, **({"cursor": cursor} if cursor else {}))).json()
            names += [item["name"] for item in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert names == sorted(POLICY_KEYS)
    answer = await world.call("viewer", "GET", f"/orgs/{world.org}/policy", cursor="AAAA")
    assert code(answer) == (400, "cursor_refused")


async def test_the_platform_explains_any_place_that_exists(world: World):
    path = f"/policy/{DAYS}/explanation"
    assert (await world.call("auditor", "GET", path, org_id=world.org, project_id=world.project)).status_code == 200
    assert code(await world.call("auditor", "GET", path, org_id=new_id())) == (404, "org_missing")
    assert code(await world.call("auditor", "GET", path, project_id=world.project)) == (422, "request_invalid")
    wrong = await world.call("auditor", "GET", path, org_id=world.other, project_id=world.project)
    assert code(wrong) == (404, "project_missing")
