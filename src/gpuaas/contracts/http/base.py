"""The shapes every HTTP type is built from. Requests refuse unknown fields; text is bounded and free of control
characters; a secret that is shown once cannot be stored because its type says so."""

from typing import Annotated, Generic, TypeVar

import msgspec

from gpuaas.contracts.http.patterns import LINE
from gpuaas.kit.errors import Detail
from gpuaas.kit.paging import DEFAULT_LIMIT, MAX_LIMIT


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body. Unknown fields are refused, so that a misspelt one is never silently ignored."""


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Query parameters."""


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """An answer."""


Name = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=63,
        pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$(?!\n)",
        description="Lower-case letters, digits and dashes.",
        examples=["ml-team"],
    ),
]
Title = Annotated[str, msgspec.Meta(min_length=1, max_length=120, pattern=LINE, examples=["ML team"])]
Reason = Annotated[str, msgspec.Meta(min_length=3, max_length=500, pattern=LINE, examples=["rotated by schedule"])]
Email = Annotated[
    str,
    msgspec.Meta(
        min_length=3,
        max_length=254,
        pattern=r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$(?!\n)",
        examples=["ada@example.com"],
    ),
]
OneTime = Annotated[
    str | None,
    msgspec.Meta(
        description="Shown once, in the first answer; null when the answer is replayed.", extra={"one_time": True}
    ),
]


class ShownOnce(Response, frozen=True, kw_only=True):
    """An answer that carries a secret. Only the first answer has it; a replay says so."""

    already_shown: bool = False


class PageQuery(Query, frozen=True, kw_only=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT, description="How many items at most.")] = DEFAULT_LIMIT
    cursor: Annotated[str, msgspec.Meta(max_length=1000, description="next_cursor of the page before.")] | None = None


T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    items: list[T]
    next_cursor: str | None = None


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    code: str
    message: str
    correlation_id: str
    details: list[Detail] = []


class ErrorResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The only shape in which the API says no."""

    error: ErrorBody


class Done(Response, frozen=True, kw_only=True):
    """It is done; there is nothing more to say."""

    done: bool = True
