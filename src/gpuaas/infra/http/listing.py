"""Pages of rows that are ordered by id: where to go on, and the page with the cursor to the next one."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar
from uuid import UUID

from gpuaas.contracts.http.base import Page, PageQuery
from gpuaas.infra.http.context import Context
from gpuaas.kit.paging import CursorRefused

V = TypeVar("V")


class HasId(Protocol):
    @property
    def id(self) -> UUID: ...


M = TypeVar("M", bound=HasId)


def after(cx: Context, query: PageQuery) -> UUID:
    """The id the page comes after; the smallest one for the first page."""
    return _position(cx, query) or UUID(int=0)


def before(cx: Context, query: PageQuery) -> UUID:
    """The same for lists with the newest first; the largest id for the first page."""
    return _position(cx, query) or UUID(int=(1 << 128) - 1)


def _position(cx: Context, query: PageQuery) -> UUID | None:
    position = cx.cursor_position(query.cursor)
    if position is None:
        return None
    try:
        return UUID(position[0])
    except (IndexError, ValueError) as error:
        raise CursorRefused from error


def page(cx: Context, query: PageQuery, rows: Sequence[M], view: Callable[[M], V]) -> Page[V]:
    """A page of rows that were asked for with one more than the limit: the one more says that there is a next page."""
    shown = rows[: query.limit]
    more = len(rows) > query.limit
    return Page(items=[view(row) for row in shown], next_cursor=cx.next_cursor(shown[-1].id) if more else None)
