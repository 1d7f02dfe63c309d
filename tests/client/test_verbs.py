"""The client has a verb for every operation, and each says what the operation's declaration says."""

import inspect
import re
import typing
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest

from gpuaas.client import (
    agent,
    allocations,
    artifacts,
    audit,
    authorities,
    billing,
    budgets,
    data_keys,
    fleet,
    flows,
    identity,
    inventory,
    invoices,
    members,
    notifications,
    orphans,
    payments,
    platform,
    policy,
    queue,
    quotas,
    service_accounts,
    standing,
    usage,
)
from gpuaas.client.call import PREFIX, Call
from gpuaas.domains import load_routes
from gpuaas.infra.http.operation import REGISTRY, Operation, Stream
from gpuaas.kit.ids import new_id

VERBS = (
    identity,
    members,
    service_accounts,
    policy,
    audit,
    platform,
    inventory,
    invoices,
    fleet,
    artifacts,
    authorities,
    notifications,
    orphans,
    quotas,
    queue,
    allocations,
    flows,
    billing,
    budgets,
    payments,
    data_keys,
    standing,
    usage,
)
load_routes()
OPERATIONS = list(REGISTRY.json())


def verbs(module: ModuleType) -> dict[str, Any]:
    return {
        name: verb
        for name, verb in vars(module).items()
        if inspect.isfunction(verb) and verb.__module__ == module.__name__ and not name.startswith("_")
    }


ALL_VERBS: dict[str, Any] = {name: verb for module in VERBS for name, verb in verbs(module).items()}
ALL_VERBS["node_enrol"] = agent.node_enrol  # on the people's listener, but said by an agent


def made(verb: Any) -> tuple[Call[Any], dict[str, Any]]:
    """A call with something for every parameter, and what it was."""
    hints = typing.get_type_hints(verb)
    given: dict[str, Any] = {}
    for name in inspect.signature(verb).parameters:
        kind = hints[name]
        given[name] = {UUID: new_id(), str: "a.b", int: 7}.get(kind, kind)
    return verb(**given), given


def test_every_operation_has_a_verb_and_every_verb_an_operation():
    missing = sorted({operation.id for operation in OPERATIONS} - set(ALL_VERBS))
    assert missing == [], "add a verb of the same name to src/gpuaas/client (docs/adding-an-operation.md)"
    assert set(ALL_VERBS) <= {operation.id for operation in REGISTRY.json()}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_a_verb_says_what_its_operation_declares(operation: Operation):
    call, given = made(ALL_VERBS[operation.id])
    values = [str(value) for value in given.values() if isinstance(value, UUID | str | int)]
    assert (call.operation, call.method) == (operation.id, operation.method)
    pattern = re.sub(r"\{\w+\}", "([^/]+)", operation.full_path)
    found = re.fullmatch(pattern, PREFIX + call.path)
    assert found, f"{PREFIX + call.path} is not {operation.full_path}"
    assert list(found.groups()) == values
    assert call.answer == (bytes if operation.answer is Stream else operation.answer)
    assert call.body == operation.body
    assert (type(call.query) if call.query is not None and not isinstance(call.query, type) else call.query) == (
        operation.query
    )


def test_a_word_in_a_path_stays_one_part_of_it():
    assert policy.policy_get("../orgs?x=1#y").path == "/policy/..%2Forgs%3Fx%3D1%23y"
