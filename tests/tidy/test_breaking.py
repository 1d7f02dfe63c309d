"""A change that breaks a client is declared: found against the last released contracts, named in the changelog."""

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.tidy.breaking import Break, api_breaks, event_breaks, undeclared
from tests.tidy.rule import ROOT

Document = dict[str, Any]
RELEASED = ROOT / "contracts/released"


def contract() -> Document:
    """A small contract with every part the comparison looks at."""
    body = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "maxLength": 63, "pattern": "^[a-z]+$"},
            "size": {"type": "integer", "minimum": 1},
            "kind": {"enum": ["a", "b"]},
            "until": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
        },
    }
    view = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {"id": {"type": "string", "format": "uuid"}, "name": {"type": "string"}},
    }
    create = {
        "operationId": "project_create",
        "parameters": [{"in": "query", "name": "limit", "schema": {"type": "integer", "maximum": 200}}],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/B"}}},
        },
        "responses": {"201": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/V"}}}}},
    }
    return {"paths": {"/projects": {"post": create}}, "components": {"schemas": {"B": body, "V": view}}}


def post(document: Document) -> Document:
    operation: Document = document["paths"]["/projects"]["post"]
    return operation


def body(document: Document) -> Document:
    schema: Document = document["components"]["schemas"]["B"]
    return schema


def view(document: Document) -> Document:
    schema: Document = document["components"]["schemas"]["V"]
    return schema


BREAKING: dict[str, Callable[[Document], object]] = {
    "POST /projects is gone": lambda d: d["paths"].clear(),
    "is now called": lambda d: post(d).update(operationId="project_make"),
    "query parameter limit is gone": lambda d: post(d)["parameters"].clear(),
    "query parameter org is now required": lambda d: post(d)["parameters"].append(
        {"in": "query", "name": "org", "required": True}
    ),
    "query parameter limit: maximum was lowered": lambda d: post(d)["parameters"][0]["schema"].update(maximum=100),
    "body.size is gone": lambda d: body(d)["properties"].pop("size"),
    "body.size is now required": lambda d: body(d)["required"].append("size"),
    "body.size: was integer": lambda d: body(d)["properties"]["size"].update(type="string"),
    "body.size: minimum was raised": lambda d: body(d)["properties"]["size"].update(minimum=2),
    "body.name: maxLength was lowered": lambda d: body(d)["properties"]["name"].update(maxLength=10),
    "body.name: the pattern changed": lambda d: body(d)["properties"]["name"].update(pattern="^x$"),
    "body.kind: no longer accepts": lambda d: body(d)["properties"]["kind"].update(enum=["a"]),
    "body.until: its alternatives changed": lambda d: body(d)["properties"]["until"]["anyOf"].pop(),
    "no longer answers 201": lambda d: post(d)["responses"].update({"200": post(d)["responses"].pop("201")}),
    "answer 201.name is gone": lambda d: view(d)["properties"].pop("name"),
    "answer 201.name is no longer always there": lambda d: view(d)["required"].remove("name"),
    "answer 201.id: was string uuid": lambda d: view(d)["properties"]["id"].pop("format"),
}
HARMLESS: dict[str, Callable[[Document], object]] = {
    "a new operation": lambda d: d["paths"].update({"/more": {"get": {"operationId": "more_read"}}}),
    "a new optional field in the body": lambda d: body(d)["properties"].update(note={"type": "string"}),
    "a field that is no longer required in the body": lambda d: body(d)["required"].clear(),
    "a wider limit": lambda d: body(d)["properties"]["name"].update(maxLength=100),
    "one more accepted value": lambda d: body(d)["properties"]["kind"].update(enum=["a", "b", "c"]),
    "one more field in the answer": lambda d: view(d)["properties"].update(more={"type": "string"}),
    "other prose": lambda d: body(d)["properties"]["until"].update(description="new words"),
}


@pytest.mark.parametrize("why", BREAKING)
def test_a_change_an_old_client_stumbles_over_is_found(why: str) -> None:
    changed = copy.deepcopy(contract())
    BREAKING[why](changed)
    assert any(why in str(broken) for broken in api_breaks(contract(), changed))


@pytest.mark.parametrize("what", HARMLESS)
def test_a_change_no_old_client_notices_passes(what: str) -> None:
    changed = copy.deepcopy(contract())
    HARMLESS[what](changed)
    assert api_breaks(contract(), changed) == []


def test_an_event_that_is_gone_or_says_less_is_found() -> None:
    payload = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}
    old = {"components": {"messages": {"org.created": {"payload": payload}, "org.deleted": {"payload": payload}}}}
    new = {"components": {"messages": {"org.created": {"payload": {"type": "object"}}}}}
    assert {broken.of for broken in event_breaks(old, new)} == {"org.created", "org.deleted"}
    assert event_breaks(old, old) == []


def test_a_break_counts_as_declared_only_under_breaking_of_the_unreleased_part() -> None:
    breaks = [Break("project_create", "gone"), Break("org_read", "gone")]
    changelog = "## [Unreleased]\n\n### Breaking\n- `project_create` …\n\n### Added\n- `org_read`\n\n## [0.1.0]\n"
    assert [broken.of for broken in undeclared(breaks, changelog)] == ["org_read"]
    assert undeclared(breaks, "## [Unreleased]\n") == breaks


def test_a_release_leaves_its_contracts_to_compare_with() -> None:
    releases = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    kept = {path.name for path in RELEASED.rglob("*.json")}
    assert not releases or {"api.json", "asyncapi.json"} <= kept


def test_every_break_since_the_last_release_is_declared() -> None:
    hidden: list[Break] = []
    for released in sorted(RELEASED.rglob("*.json")):
        printed = ROOT / "contracts" / released.relative_to(RELEASED)
        old, new = json.loads(released.read_text()), json.loads(printed.read_text())
        breaks = event_breaks(old, new) if "asyncapi" in old else api_breaks(old, new)
        hidden += undeclared(breaks, (ROOT / "CHANGELOG.md").read_text())
    assert not hidden, "name these in CHANGELOG.md under Unreleased, Breaking:\n" + "\n".join(map(str, hidden))
