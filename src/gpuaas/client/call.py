"""A call is a value: which operation, with what, and the type of its answer. Verbs make calls, `Api` sends them, so the
same verbs serve any way of sending and can be checked against the register without a server."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from gpuaas.contracts.http.base import Query, Request

T = TypeVar("T")
PREFIX = "/api/v1"


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    operation: str
    method: str
    path: str
    answer: type[T]
    body: Request | None = None
    query: Query | None = None

    @property
    def changes(self) -> bool:
        return self.method != "GET"

    def content(self) -> bytes | None:
        return None if self.body is None else msgspec.json.encode(self.body)

    def parameters(self) -> dict[str, str]:
        """The query as it is written in a URL; what was left out stays out."""
        if self.query is None:
            return {}
        given: dict[str, Any] = msgspec.to_builtins(self.query)
        return {name: _text(value) for name, value in given.items() if value is not None}


def segment(word: str) -> str:
    """A word as one part of a path, whatever is in it."""
    return quote(word, safe="") or "-"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
