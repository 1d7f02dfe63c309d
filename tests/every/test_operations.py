"""Every operation × every actor: what comes of it follows from the declaration alone, and has the declared shape."""

import re
import typing
from typing import Any

import httpx
import msgspec
import pytest
from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from gpuaas.infra.http.context import Scope
from gpuaas.infra.http.openapi import document
from gpuaas.infra.http.operation import REGISTRY, Operation, Stream
from gpuaas.kit.ids import new_id
from tests.every.asking import OPERATIONS, Asking, assert_refused, best_actor, expected
from tests.every.examples import EXAMPLES
from tests.every.world import ACTORS

DOCUMENT: Any = msgspec.to_builtins(document(REGISTRY))
RESOURCES: Any = Registry().with_resource("urn:contract", DRAFT202012.create_resource(DOCUMENT))


def test_every_operation_has_an_example_and_every_example_an_operation():
    assert set(EXAMPLES) == {op.id for op in OPERATIONS}


@pytest.mark.parametrize("actor", ACTORS)
@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.id)
async def test_an_operation_answers_each_actor_as_declared(asking: Asking, op: Operation, actor: str):
    ask = await asking.ask(op, actor)
    status, code = expected(op, ask.caller, ask.example)
    answer = await asking.send(ask, **{"X-Correlation-Id": "every-operation-1"})
    assert answer.headers["x-correlation-id"] == "every-operation-1"
    assert answer.headers["x-content-type-options"] == "nosniff"
    if code is not None:
        assert_refused(answer, status, code)
    else:
        assert answer.status_code == status, answer.text
        assert_declared_answer(op, answer)


@pytest.mark.parametrize(
    "op", [op for op in OPERATIONS if op.scope in (Scope.ORG, Scope.PROJECT)], ids=lambda op: op.id
)
async def test_what_is_not_yours_is_as_if_it_were_not(asking: Asking, op: Operation):
    """The stranger hears the same of somebody else's organisation and of one that never was."""
    ask = await asking.ask(op, "stranger")
    theirs = await asking.send(ask)
    nowhere = await asking.send(ask.but(path=ask.example.path | {"org_id": new_id(), "project_id": new_id()}))
    assert theirs.status_code == nowhere.status_code == 404
    assert _without_correlation(theirs) == _without_correlation(nowhere)


def _names_something_of_a_tenant(op: Operation) -> bool:
    """The platform sees all tenants; a policy's name and a SKU are nobody's own."""
    return op.scope is not Scope.PLATFORM and bool(set(op.path_params) - {"org_id", "project_id", "name", "sku_id"})


@pytest.mark.parametrize("op", [*filter(_names_something_of_a_tenant, OPERATIONS)], ids=lambda op: op.id)
async def test_an_id_of_another_tenant_in_ones_own_organisation_is_absent(asking: Asking, op: Operation):
    """The organisation is the asker's, the rest of the path is not: the answer is that of ids that never were."""
    mine = await asking.ask(op, "owner")
    theirs = await asking.ask(op, "owner")
    foreign = await asking.send(mine.but(path=theirs.example.path))
    absent = await asking.send(mine.but(path=dict.fromkeys(mine.example.path, new_id())))
    assert foreign.status_code == absent.status_code == 404, foreign.text
    assert _without_correlation(foreign) == _without_correlation(absent)


@pytest.mark.parametrize("op", [op for op in OPERATIONS if op.path_params], ids=lambda op: op.id)
async def test_a_malformed_id_is_refused_in_the_catalogues_shape(asking: Asking, op: Operation):
    ask = await asking.ask(op, best_actor(op))
    for bad in ("not-an-id", "0", "a" * 3000, "%00", "..%2F..", "%0d%0aX-Evil:1", "é", str(new_id())[:-1] + "g"):
        path = re.sub(r"\{\w+\}", bad, op.full_path)
        answer = await asking.live.client.request(**(ask.request() | {"url": path}))
        assert answer.status_code in {400, 404, 422}, f"{bad}: {answer.text}"
        assert "x-evil" not in answer.headers
        assert_refused(answer, answer.status_code, answer.json()["error"]["code"])


def assert_declared_answer(op: Operation, answer: httpx.Response) -> None:
    """It decodes strictly into the declared type, and the printed contract allows it."""
    content = DOCUMENT["paths"][op.full_path][op.method.lower()]["responses"][str(op.status)]["content"]
    kind = answer.headers["content-type"].partition(";")[0]
    assert kind in content, f"{kind} is not one of {list(content)}"
    if op.answer is Stream:
        live = kind == "text/event-stream"  # is looked at, not kept
        assert live or "attachment" in answer.headers["content-disposition"]
        return
    value = msgspec.json.decode(answer.content, type=op.answer, strict=True)
    assert msgspec.json.decode(msgspec.json.encode(value)) == msgspec.json.decode(answer.content), (
        "it has fields the type does not know"
    )
    schema = content[kind]["schema"]
    validator = Draft202012Validator(_rooted(schema), registry=RESOURCES, format_checker=FormatChecker())
    problems = [error.message for error in validator.iter_errors(answer.json())]
    assert problems == []


def _rooted(schema: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(schema).replace(b'"#/', b'"urn:contract#/'))


def _without_correlation(answer: httpx.Response) -> dict[str, Any]:
    return typing.cast(dict[str, Any], answer.json()["error"]) | {"correlation_id": ""}
