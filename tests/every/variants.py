"""The same request, but different: still well-formed, still allowed, and not what was asked before."""

from typing import Any

import msgspec

from gpuaas.infra.http.operation import Operation
from gpuaas.kit.ids import new_id
from tests.every.asking import Ask


def other_body(ask: Ask) -> Ask | None:
    """Another body of the same type; None when the operation takes none, or has only one."""
    if ask.example.body is None:
        return None
    found = _other(ask.example.body, lambda said: msgspec.convert(said, ask.op.body))
    return None if found is None else ask.but(body=found)


def other_query(ask: Ask) -> Ask | None:
    if ask.op.query is None:
        return None
    found = _other(ask.example.query, lambda said: msgspec.convert(said, ask.op.query, strict=False))
    return None if found is None else ask.but(query=found)


def other_path(ask: Ask) -> Ask | None:
    """Another thing of the same kind in the same place; a policy's name has no other that everybody may set."""
    named = [name for name in ask.example.path if name.endswith("_id")]
    return ask.but(path=ask.example.path | {named[-1]: new_id()}) if named else None


def broken(op: Operation, ask: Ask) -> list[tuple[str, dict[str, Any], str | None]]:
    """Requests that are refused before or inside of the transaction: what is wrong, what changes, the key."""
    found: list[tuple[str, dict[str, Any], str | None]] = [("no key", {}, "")]
    found.append(("a bad key", {}, "with a blank"))
    if op.body is not None:
        found += [
            ("not JSON", {"content": b"{"}, None),
            ("a list", {"content": b"[]"}, None),
            ("an unknown field", {"content": msgspec.json.encode((ask.example.body or {}) | {"surplus": 1})}, None),
            ("a NUL", {"content": msgspec.json.encode((ask.example.body or {}) | {"reason": "a\0b"})}, None),
            ("too large", {"content": b'{"a":"' + b"x" * (op.body_limit + 1) + b'"}'}, None),
        ]
    else:
        found.append(("a body where none is taken", {"content": b"{}"}, None))
    found.append(("an unknown query", {"params": {"surplus": "1"}}, None))
    return found


def _other(said: dict[str, Any], accepted: Any) -> dict[str, Any] | None:
    original = accepted(said)
    for name, value in said.items():
        for candidate in _candidates(value):
            changed = said | {name: candidate}
            try:
                if accepted(changed) != original:
                    return changed
            except msgspec.ValidationError:
                continue
    for name, extra in (
        ("title", "Another"),
        ("reason", "another reason"),
        ("guardrail", True),
        ("refresh_token", "another"),
        ("name", "another"),
    ):
        try:
            if accepted(said | {name: extra}) != original:
                return said | {name: extra}
        except msgspec.ValidationError:
            continue
    return None


def _candidates(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    if isinstance(value, str):
        return [value + "x", "x" + value, "member", "admin"]
    return [[]]
