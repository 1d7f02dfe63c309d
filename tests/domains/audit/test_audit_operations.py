"""The audit log through the API: whose entries, which of them, and as files."""

import csv
import io
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

import gpuaas.domains.audit.routes  # noqa: F401 - declares the operations asked here
from gpuaas.contracts.permissions import PlatformRole, Role
from gpuaas.domains.audit import service
from gpuaas.domains.audit.chain import GENESIS, SealedRow, link_hash
from gpuaas.domains.policy.models import Override, Place
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.infra.postgres.database import Database
from gpuaas.kit import clock
from gpuaas.kit.ids import OrgId, new_id
from gpuaas.kit.parts import Parts
from tests.support.audit_trail import seal_all, write
from tests.support.written_people import Caller, WrittenPeople, api_for

IDS = {"id", "actor_id", "org_id", "project_id", "subject_id"}
EVIL = '=HYPERLINK("http://evil.example","x")'


@dataclass
class World:
    call: Caller
    mine: OrgId
    theirs: OrgId
    policy: MemoryPolicy
    ids: list[UUID]
    actor: UUID
    project: UUID


@pytest.fixture(scope="module")
async def world(db: Database, superuser, keys) -> AsyncIterator[World]:
    people, policy = WrittenPeople(), MemoryPolicy()
    mine, theirs = await people.org(superuser, "mine"), await people.org(superuser, "theirs")
    people.add("admin", orgs={mine: Role.ADMIN})
    people.add("member", orgs={mine: Role.MEMBER})
    people.add("stranger", orgs={theirs: Role.OWNER})
    people.add("auditor", platform=[PlatformRole.AUDITOR])
    actor, project = new_id(), new_id()
    ids = await write(db, 60, mine)
    ids += await write(db, 5, mine, actor_id=actor, action="key.revoke", project_id=project, actor_name=EVIL)
    await write(db, 7, theirs)
    await write(db, 3)
    await seal_all(db, keys, policy)
    async with api_for(db, people, policy, Parts(db, policy, keys)) as call:
        yield World(call, mine, theirs, policy, ids, actor, project)


async def everything(world: World, path: str, who: str = "admin", **query) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    while True:
        answer = await world.call(who, "GET", path, **query)
        assert answer.status_code == 200, answer.text
        items += answer.json()["items"]
        if answer.json()["next_cursor"] is None:
            return items
        query["cursor"] = answer.json()["next_cursor"]


async def test_an_organisation_sees_its_own_newest_first_each_once(world: World):
    items = await everything(world, f"/orgs/{world.mine}/audit", limit=13)
    assert [UUID(item["id"]) for item in items] == sorted(world.ids, reverse=True)
    assert {item["org_id"] for item in items} == {str(world.mine)}
    assert items[-1]["details"] == {"name": "x"}


async def test_a_page_that_ends_with_the_list_has_no_next(world: World):
    answer = (await world.call("admin", "GET", f"/orgs/{world.mine}/audit", limit=5, action="key.revoke")).json()
    assert (len(answer["items"]), answer["next_cursor"]) == (5, None)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"action": "key.revoke"}, 5),
        ({"action": "key.revok"}, 0),
        ({"actor_id": "{actor}"}, 5),
        ({"project_id": "{project}"}, 5),
        ({"project_id": "{project}", "action": "thing.create"}, 0),
        ({"subject_id": "{actor}"}, 0),
        ({"from": "{hour_ago}"}, 65),
        ({"to": "{hour_ago}"}, 0),
        ({"from": "{hour_ago}", "to": "{in_an_hour}"}, 65),
        ({"from": "1969-01-01T00:00:00Z"}, 65),
        ({"to": "9999-12-31T23:59:59Z"}, 65),
        ({"from": "0001-01-01T00:00:00Z", "to": "9999-12-31T23:59:59+00:00"}, 65),
    ],
)
async def test_filters_hold_together(world: World, query, count):
    given = {
        "actor": world.actor,
        "project": world.project,
        "hour_ago": (clock.now() - timedelta(hours=1)).isoformat(),
        "in_an_hour": (clock.now() + timedelta(hours=1)).isoformat(),
    }
    asked = {name: value.format(**given) for name, value in query.items()}
    assert len(await everything(world, f"/orgs/{world.mine}/audit", **asked)) == count


@pytest.mark.parametrize(
    "query",
    [
        {"from": "2025-01-01T00:00:00"},
        {"from": "yesterday"},
        {"from": "9999-12-31T23:59:59-14:00"},
        {"to": "0001-01-01T00:00:00+14:00"},
        {"actor_id": "me"},
        {"action": "'; DROP TABLE x"},
        {"from": "2025-01-02T00:00:00Z", "to": "2025-01-01T00:00:00Z"},
        {"limit": 0},
        {"limit": 201},
        {"limit": "many"},
        {"unknown": 1},
        {"from": "2025-01-01T00:00:00Z", "to": "2025-01-01T00:00:00Z"},
    ],
)
async def test_a_filter_that_makes_no_sense_is_refused(world: World, query):
    answer = await world.call("admin", "GET", f"/orgs/{world.mine}/audit", **query)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "request_invalid")


async def test_a_cursor_answers_its_own_question_only(world: World):
    first = (await world.call("admin", "GET", f"/orgs/{world.mine}/audit", limit=2)).json()["next_cursor"]
    for who, path, query in (
        ("admin", f"/orgs/{world.mine}/audit", {"action": "key.revoke"}),
        ("auditor", "/audit", {}),
        ("auditor", f"/orgs/{world.mine}/audit", {}),
        ("stranger", f"/orgs/{world.theirs}/audit", {}),
    ):
        answer = await world.call(who, "GET", path, cursor=first, **query)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "cursor_refused")


@pytest.mark.parametrize(("who", "status"), [("member", 403), ("stranger", 404), ("auditor", 200), ("nobody", 401)])
@pytest.mark.parametrize(
    "path",
    [
        "/orgs/{mine}/audit",
        "/orgs/{mine}/audit/{id}",
        "/orgs/{mine}/audit-export/csv",
        "/orgs/{mine}/audit-export/jsonl",
    ],
)
async def test_who_may_read_it(world: World, who, status, path):
    answer = await world.call(who, "GET", path.format(mine=world.mine, id=world.ids[0]))
    assert answer.status_code == status


@pytest.mark.parametrize(
    "path", ["/audit", "/audit/{id}", "/audit-export/csv", "/audit-export/jsonl", "/audit-checkpoints"]
)
async def test_the_whole_log_is_the_platforms(world: World, path):
    path = path.format(id=world.ids[0])
    assert (await world.call("admin", "GET", path)).status_code == 403
    assert (await world.call("auditor", "GET", path)).status_code == 200


async def test_the_platform_sees_all_and_can_look_at_one(world: World):
    assert len(await everything(world, "/audit", "auditor", limit=40)) == 75
    assert len(await everything(world, "/audit", "auditor", org_id=world.theirs)) == 7


async def test_one_entry_comes_with_its_link(world: World):
    told = (await world.call("admin", "GET", f"/orgs/{world.mine}/audit/{world.ids[0]}")).json()
    assert told["seal"]["seq"] >= 1
    assert len(bytes.fromhex(told["seal"]["hash"])) == 32


async def test_anothers_entry_and_none_give_the_same_answer(world: World):
    theirs = (await world.call("auditor", "GET", "/audit", org_id=world.theirs)).json()["items"][0]["id"]
    answers = [await world.call("admin", "GET", f"/orgs/{world.mine}/audit/{it}") for it in (theirs, new_id())]
    assert {(a.status_code, a.json()["error"]["code"], a.json()["error"]["message"]) for a in answers} == {
        (404, "audit_entry_missing", "There is no such audit entry here.")
    }
    assert (await world.call("admin", "GET", f"/orgs/{world.mine}/audit/not-an-id")).status_code == 422


async def test_a_csv_export_is_complete_and_calculates_nothing(world: World, monkeypatch):
    monkeypatch.setattr(service, "EXPORT_BATCH", 7)
    answer = await world.call("admin", "GET", f"/orgs/{world.mine}/audit-export/csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert f'filename="audit-{world.mine}-' in answer.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert [UUID(row["id"]) for row in rows] == sorted(world.ids)
    assert [row["actor_name"] for row in rows if row["action"] == "key.revoke"] == ["'" + EVIL] * 5
    assert all(cell[:1] not in "=+-@\t\r" for row in rows for cell in row.values() if cell)


async def test_a_jsonl_export_can_be_verified_by_whoever_has_it(world: World):
    answer = await world.call("auditor", "GET", "/audit-export/jsonl")
    assert answer.headers["content-type"] == "application/jsonl"
    lines = sorted(map(json.loads, answer.text.splitlines()), key=lambda line: line["seq"])
    assert [line["seq"] for line in lines] == list(range(1, 76))
    hashes = {0: GENESIS} | {line["seq"]: bytes.fromhex(line["hash"]) for line in lines}
    for line in lines:
        row = SealedRow(**{field: _typed(field, line[field]) for field in SealedRow.__struct_fields__})
        assert link_hash(line["seq"], hashes[line["seq"] - 1], row) == hashes[line["seq"]]


def _typed(field: str, value):
    if field == "details":
        return json.dumps(value, ensure_ascii=False)  # as PostgreSQL prints it
    if field == "at":
        return datetime.fromisoformat(value)
    return UUID(value) if value is not None and field in IDS else value


async def test_filters_hold_for_exports_too(world: World):
    answer = await world.call("admin", "GET", f"/orgs/{world.mine}/audit-export/jsonl", action="key.revoke")
    assert len(answer.text.splitlines()) == 5
    empty = await world.call("admin", "GET", f"/orgs/{world.mine}/audit-export/csv", to="2020-01-01T00:00:00Z")
    assert len(empty.text.splitlines()) == 1
    refused = await world.call("admin", "GET", f"/orgs/{world.mine}/audit-export/csv", limit=5)
    assert refused.status_code == 422


async def test_policy_can_forbid_exports_and_hide_addresses(world: World):
    def answers(path: str):
        return world.call("admin", "GET", f"/orgs/{world.mine}/{path}", action="key.revoke")

    world.policy.load(
        1,
        [
            Override(key="audit.export_allowed", place=Place(world.mine), value=False),
            Override(key="audit.client_ip_shown", place=Place(world.mine), value="network"),
        ],
    )
    try:
        for form in ("csv", "jsonl"):
            refused = await answers(f"audit-export/{form}")
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "audit_export_off")
        assert {i["client_ip"] for i in (await answers("audit")).json()["items"]} == {"192.0.2.0/24"}
        assert (await world.call("auditor", "GET", "/audit-export/csv")).status_code == 200
        world.policy.load(2, [Override(key="audit.client_ip_shown", place=Place(), value="hidden")])
        assert "192.0.2" not in (await answers("audit-export/jsonl")).text
        assert "192.0.2.77" in (await world.call("auditor", "GET", "/audit-export/jsonl")).text
    finally:
        world.policy.load(3, [])


async def test_a_long_export_holds_no_connection_and_little_memory(world: World, db: Database, monkeypatch):
    """Read slowly, a batch at a time: between batches the pool is free."""
    from gpuaas.domains.audit.export import json_lines
    from gpuaas.domains.audit.models import Wanted
    from gpuaas.infra.postgres.tx import Sight

    monkeypatch.setattr(service, "EXPORT_BATCH", 10)
    sizes = []
    async for chunk in service.audit_export(db, Sight(world.mine), Wanted(org_id=world.mine), json_lines):
        sizes.append(chunk.count(b"\n"))
        assert db.in_use["reads"] == 0
    assert sizes == [10] * 6 + [5]


async def test_checkpoints_are_listed_with_the_key_that_verifies_them(world: World, keys):
    found = await everything(world, "/audit-checkpoints", "auditor", limit=1)
    assert found
    assert all(json.loads(point["public_key"])["crv"] == "Ed25519" for point in found)
