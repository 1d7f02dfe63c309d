"""Values that are well-formed and wrong: ids, numbers, instants, cursors. Each is refused with field and reason, and
whoever asks learns nothing of what is not his."""

from typing import Any
from uuid import UUID

import httpx
import pytest

from gpuaas.infra.http.operation import REGISTRY
from gpuaas.kit.ids import new_id
from gpuaas.kit.paging import Cursors
from gpuaas.kit.secrets import MasterKey
from tests.every.asking import Asking, assert_refused, best_actor
from tests.every.conftest import asking
from tests.every.world import Setting
from tests.support.live import live_api

__all__ = ["asking", "live_api"]

IDS = [
    "0", "-1", "null", "undefined", "None", "NaN", "true", "[]", "{}", "1e309", "00000000", "ffffffff" * 100,
    "00000000-0000-0000-0000-00000000000g", "{00000000-0000-0000-0000-000000000000}", "urn:uuid:0",
    "' OR '1'='1", "1; DROP TABLE orgs", "%27", "..", "*", "\u202e", "\u0661",
]  # fmt: skip
NUMBERS: list[Any] = [
    0, -1, 3651, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**400, 1.5, "7", "", True, [], {}, "NaN", "1e3", "٣",
]  # fmt: skip
INSTANTS = [
    "2026-01-01T00:00:00", "2026-01-01", "01/02/2026", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "now",
    "2026-01-01T25:00:00Z", "1767225600", "10000-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "-2026-01-01T00:00:00Z", "",
    "2026-01-01T00:00:00+99:00",
]  # fmt: skip


@pytest.fixture(scope="module")
async def setting(asking: Asking) -> Setting:
    return await asking.setting()


async def ask(asking: Asking, s: Setting, method: str, path: str, who: str = "owner", **more: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {asking.live.token_for(s.people[who])}", "Idempotency-Key": new_id().hex}
    return await asking.live.client.request(method, "/api/v1" + path, headers=headers, **more)


@pytest.mark.parametrize("bad", IDS)
async def test_what_is_no_id_is_refused_wherever_an_id_is_taken(asking: Asking, setting: Setting, bad: str):
    in_path = await ask(asking, setting, "GET", f"/orgs/{bad}")
    assert in_path.status_code in {400, 404, 422}
    assert_refused(in_path, in_path.status_code, in_path.json()["error"]["code"])
    in_query = await ask(asking, setting, "GET", f"/orgs/{setting.org_id}/audit", params={"actor_id": bad})
    assert_refused(in_query, 422, "request_invalid")
    assert in_query.json()["error"]["details"][0]["field"] == "actor_id"
    body = {"name": "robot", "role": "viewer", "allowed_operations": ["org_get"], "project_id": bad}
    in_body = await ask(asking, setting, "POST", f"/orgs/{setting.org_id}/service-accounts", json=body)
    assert_refused(in_body, 422, "request_invalid")
    assert in_body.json()["error"]["details"][0]["field"] == "project_id"


@pytest.mark.parametrize("id", [UUID(int=0), UUID(int=2**128 - 1), new_id()])
async def test_an_id_of_nothing_is_absent(asking: Asking, setting: Setting, id: UUID):
    assert_refused(await ask(asking, setting, "GET", f"/orgs/{id}"), 404, "org_missing")
    assert_refused(await ask(asking, setting, "GET", f"/projects/{id}"), 404, "project_missing")


async def test_another_tenants_project_in_a_body_is_absent(asking: Asking, setting: Setting):
    other = await asking.setting()
    said = []
    for project_id in (other.project_id, new_id()):
        body = {"name": "robot", "role": "viewer", "allowed_operations": ["org_get"], "project_id": str(project_id)}
        answer = await ask(asking, setting, "POST", f"/orgs/{setting.org_id}/service-accounts", json=body)
        assert_refused(answer, 404, "project_missing")
        said.append(answer.json()["error"] | {"correlation_id": ""})
    assert said[0] == said[1]


@pytest.mark.parametrize("bad", NUMBERS, ids=repr)
async def test_what_is_no_number_of_days_is_refused(asking: Asking, setting: Setting, bad: Any):
    path = f"/orgs/{setting.org_id}/service-accounts/{setting.accounts['tended'].id}/keys"
    answer = await ask(asking, setting, "POST", path, json={"expires_in_days": bad})
    assert_refused(answer, 422, "request_invalid")
    assert answer.json()["error"]["details"][0]["field"] == "expires_in_days"


@pytest.mark.parametrize("bad", ["NaN", "Infinity", "-Infinity", "1x10", "01", "+1", ".5", "1_000"])
async def test_what_json_does_not_know_as_a_number_is_refused(asking: Asking, setting: Setting, bad: str):
    path = f"/orgs/{setting.org_id}/service-accounts/{setting.accounts['tended'].id}/keys"
    headers = {"Authorization": f"Bearer {asking.live.token_for(setting.people['owner'])}",
               "Idempotency-Key": new_id().hex, "Content-Type": "application/json"}  # fmt: skip
    answer = await asking.live.client.post(
        "/api/v1" + path, headers=headers, content=f'{{"expires_in_days": {bad}}}'.encode()
    )
    assert_refused(answer, 400, "request_malformed")


@pytest.mark.parametrize("bad", [-1, 0, 91, 2**53, -(2**53), "7", True, 1.5, 10**30], ids=repr)
async def test_a_policy_takes_what_fits_its_type_and_bounds_only(asking: Asking, setting: Setting, bad: Any):
    path = f"/orgs/{setting.org_id}/policy/identity.invitation_days"
    answer = await ask(asking, setting, "PUT", path, json={"value": bad, "reason": "a test"})
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] in {"policy_value_refused", "request_invalid"}


@pytest.mark.parametrize("bad", INSTANTS)
async def test_what_is_no_instant_is_refused(asking: Asking, setting: Setting, bad: str):
    in_query = await ask(asking, setting, "GET", f"/orgs/{setting.org_id}/audit", params={"from": bad})
    assert_refused(in_query, 422, "request_invalid")
    assert in_query.json()["error"]["details"][0]["field"] == "from"
    body = {"credential_id": "x", "reason": "a test", "expires_at": bad}
    in_body = await ask(asking, setting, "POST", "/platform/revoked-credentials", "platform_admin", json=body)
    assert_refused(in_body, 422, "request_invalid")


async def test_instants_out_of_order_or_out_of_range_are_refused(asking: Asking, setting: Setting):
    reversed_range = {"from": "2026-02-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}
    answer = await ask(asking, setting, "GET", f"/orgs/{setting.org_id}/audit", params=reversed_range)
    assert_refused(answer, 422, "request_invalid")
    for instant in ("9999-12-31T23:59:59Z", "2001-01-01T00:00:00Z"):
        body = {"credential_id": "x", "reason": "a test", "expires_at": instant}
        answer = await ask(asking, setting, "POST", "/platform/revoked-credentials", "platform_admin", json=body)
        assert_refused(answer, 422, "request_invalid")
    for instant in ("9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"):
        answer = await ask(asking, setting, "GET", f"/orgs/{setting.org_id}/audit", params={"from": instant})
        assert answer.status_code == 200, answer.text


async def next_cursor(asking: Asking, s: Setting, path: str, who: str = "owner", **query: str) -> str:
    answer = await ask(asking, s, "GET", path, who, params={"limit": "1"} | query)
    return str(answer.json()["next_cursor"])


async def test_a_cursor_answers_its_own_question_only(asking: Asking, setting: Setting):
    """Not another list's, filter's, tenant's or person's; not one that was touched, cut, or signed by somebody else."""
    members = f"/orgs/{setting.org_id}/members"
    cursor = await next_cursor(asking, setting, members)
    assert (await ask(asking, setting, "GET", members, params={"limit": "1", "cursor": cursor})).status_code == 200
    other = await asking.setting()
    forged = Cursors(MasterKey(b"k" * 32).cursor_key).make("member_list", [str(UUID(int=0))])
    foreign = [
        (setting, members, "admin", cursor),  # another person's
        (setting, f"/orgs/{setting.org_id}/service-accounts", "owner", cursor),  # another list's
        (other, f"/orgs/{other.org_id}/members", "owner", cursor),  # another tenant's
    ]
    touched = (forged, cursor[:-1], cursor + "A", cursor[::-1], cursor.lower(), "A")
    foreign += [(setting, members, "owner", bad) for bad in touched]
    for s, path, who, given in foreign:
        answer = await ask(asking, s, "GET", path, who, params={"limit": "1", "cursor": given})
        assert_refused(answer, 400, "cursor_refused")
    audit = f"/orgs/{setting.org_id}/audit"
    await ask(asking, setting, "PATCH", f"/orgs/{setting.org_id}", json={"title": "Another"})
    filtered = await next_cursor(asking, setting, audit)
    answer = await ask(asking, setting, "GET", audit, params={"limit": "1", "cursor": filtered, "action": "org.update"})
    assert_refused(answer, 400, "cursor_refused")


LISTS = [op for op in REGISTRY.json() if op.query is not None and "cursor" in op.query.__struct_fields__]


@pytest.mark.parametrize("op", LISTS, ids=lambda op: op.id)
async def test_every_list_refuses_a_cursor_that_is_not_its_own(asking: Asking, op: Any):
    made = await asking.ask(op, best_actor(op))
    forged = Cursors(MasterKey(b"k" * 32).cursor_key).make(op.id, [str(UUID(int=0))])
    for cursor in ("A", forged, "%00", "ä", "=" * 10):
        answer = await asking.send(made.but(query=made.example.query | {"cursor": cursor}))
        assert answer.status_code in {400, 422}, answer.text
        assert answer.json()["error"]["code"] in {"cursor_refused", "request_invalid"}


@pytest.mark.parametrize("op", LISTS, ids=lambda op: op.id)
async def test_every_list_can_be_walked_one_by_one(asking: Asking, op: Any):
    """Each once, none twice, to its end."""
    made = await asking.ask(op, best_actor(op))
    whole = (await asking.send(made.but(query=made.example.query | {"limit": "200"}))).json()
    if whole["next_cursor"] is not None:
        return  # longer than a page: walked by the page in its own test
    seen: list[Any] = []
    cursor: str | None = ""
    while cursor is not None and len(seen) <= len(whole["items"]):
        query = made.example.query | {"limit": "1"} | ({"cursor": cursor} if cursor else {})
        page = (await asking.send(made.but(query=query))).json()
        seen += page["items"]
        cursor = page["next_cursor"]
    assert cursor is None
    assert seen == whole["items"]
