"""Query parameters, each in the one spelling its contract allows: a number is digits, a flag `true` or `false`, an
instant has its date and zone. What a lax reader would also take (`1` for an instant, `null` for nothing) is refused."""

import re
from typing import Any

import msgspec
from msgspec import inspect

from gpuaas.contracts.http.base import Query
from gpuaas.infra.http.request import invalid, validation_fault

_SPELLING: dict[type, re.Pattern[str]] = {
    inspect.IntType: re.compile(r"-?(0|[1-9][0-9]{0,18})"),
    inspect.BoolType: re.compile(r"true|false"),
    inspect.DateTimeType: re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9:.]+([Zz]|[+-][0-9]{2}:[0-9]{2})"),
}


class QueryReader:
    """Reads one operation's query."""

    def __init__(self, kind: type[Query]) -> None:
        self._kind = kind
        self._spelling = {
            field.encode_name: pattern
            for field in msgspec.structs.fields(kind)
            if (pattern := _spelling(inspect.type_info(field.type))) is not None
        }

    def read(self, asked: dict[str, str]) -> Query:
        for name, value in asked.items():
            spelling = self._spelling.get(name)
            if value.lower() == "null" or (spelling is not None and not spelling.fullmatch(value)):
                raise invalid(f"{name} in the query is not well-formed.", name, "not a value of its type")
        try:
            return msgspec.convert(asked, self._kind, strict=False)
        except msgspec.ValidationError as error:
            raise validation_fault(error) from error


def _spelling(info: Any) -> re.Pattern[str] | None:
    if isinstance(info, inspect.Metadata):
        return _spelling(info.type)
    if isinstance(info, inspect.UnionType):
        found = [_spelling(member) for member in info.types if not isinstance(member, inspect.NoneType)]
        return found[0] if len(found) == 1 else None
    return _SPELLING.get(type(info))
