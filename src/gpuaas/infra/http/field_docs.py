"""What a contract type's fields mean, from the sentences written below them in its source, put into its schema. So a
field is explained once, where it is declared; and every instant is said to be one."""

import ast
import inspect
import typing
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from types import ModuleType
from typing import Any

import msgspec

Schema = dict[str, Any]


def describe_fields(components: dict[str, Schema]) -> None:
    """Add to the schemas of contract types what their source says beside the types."""
    for kind in _contract_types(msgspec.Struct):
        schema = components.get(kind.__name__, {})
        properties = schema.get("properties")
        if not properties:
            continue
        hints = typing.get_type_hints(kind)
        for field in msgspec.structs.fields(kind):
            told = properties.get(field.encode_name)
            if told is not None:
                _complete(told, hints[field.name], _sentence(kind, field.name))


def _complete(schema: Schema, hint: Any, sentence: str) -> None:
    if sentence and "description" not in schema:
        schema["description"] = sentence
    if hint is datetime or datetime in typing.get_args(hint):
        for branch in (schema, *schema.get("anyOf", [])):
            if branch.get("type") == "string":
                branch.setdefault("format", "date-time")


def _contract_types(base: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for kind in base.__subclasses__():
        if kind.__module__.startswith("gpuaas.contracts.http."):
            yield kind
        yield from _contract_types(kind)


def _sentence(kind: type, field: str) -> str:
    """Of the field where it is declared, in the type itself or one it derives from."""
    for owner in kind.__mro__:
        module = inspect.getmodule(owner)
        if module is not None and module.__name__.startswith("gpuaas."):
            found = _sentences(module).get((owner.__name__, field))
            if found:
                return found
    return ""


@cache
def _sentences(module: ModuleType) -> dict[tuple[str, str], str]:
    """By type and field, from the module's source: a string that stands below a field tells of it."""
    found: dict[tuple[str, str], str] = {}
    for declared in ast.parse(inspect.getsource(module)).body:
        if not isinstance(declared, ast.ClassDef):
            continue
        for field, below in zip(declared.body, declared.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            ):
                found[declared.name, field.target.id] = inspect.cleandoc(below.value.value)
    return found
