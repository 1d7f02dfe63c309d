"""Lists and what is read with them: filters, pages from newest to oldest, objects written out in place of their ids."""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from gpuaas.processes.demo_payments.book import Book, Object
from gpuaas.processes.demo_payments.checkout import line_items, session_view
from gpuaas.processes.demo_payments.errors import invalid
from gpuaas.processes.demo_payments.objects import page_of
from gpuaas.processes.demo_payments.params import Created, Listing, Params

MAX_EXPANSIONS = 20
MAX_EXPANSION_DEPTH = 4
_NOT_FILTERS = frozenset({"limit", "starting_after", "ending_before", "created", "expand"})
_IDS = frozenset({"charge", "customer", "dispute", "latest_charge", "payment_intent"})


class Finds(Protocol):
    def find(self, id: str) -> Object | None: ...


def listed(book: Book, kind: str, url: str, asked: Listing) -> Object:
    """One page. `starting_after` goes on to older ones, `ending_before` back to newer ones."""
    if asked.starting_after is not None and asked.ending_before is not None:
        raise invalid("You may only specify one of these parameters: ending_before, starting_after.")
    for param in ("starting_after", "ending_before"):
        if (cursor := getattr(asked, param)) is not None:
            book.get(kind, cursor, param=param)
    fits = _filter(asked)
    rows = [one for one in book.newest_first(kind) if one["id"] in _cursors(asked) or fits(one)]
    if asked.starting_after is not None:
        rows = rows[_place(rows, asked.starting_after) + 1 :]
    elif asked.ending_before is not None:
        rows = rows[: _place(rows, asked.ending_before)]
        return page_of(url, _views(book, rows[-asked.limit :], asked), has_more=len(rows) > asked.limit)
    return page_of(url, _views(book, rows[: asked.limit], asked), has_more=len(rows) > asked.limit)


def expanded(book: Finds, one: Object, asked: Params, *, prefix: str = "") -> Object:
    """As answered, with the asked-for ids replaced by what they stand for."""
    if len(asked.expand) > MAX_EXPANSIONS:
        raise invalid(f"You can expand at most {MAX_EXPANSIONS} properties.", param="expand")
    view = _view(one)
    for path in asked.expand:
        if not path.startswith(prefix):
            raise invalid(f"This property cannot be expanded ({path}).", param="expand")
        parts = path.removeprefix(prefix).split(".")
        if len(parts) > MAX_EXPANSION_DEPTH:
            raise invalid("You cannot expand more than 4 levels of a property.", param="expand")
        _expand(book, one, view, parts, path)
    return view


def _expand(book: Finds, one: Object, view: Object, parts: list[str], path: str) -> None:
    name = parts[0]
    if name == "line_items" and one["object"] == "checkout.session":
        view[name] = line_items(one)
        return
    if name not in _IDS or name not in view:
        raise invalid(f"This property cannot be expanded ({path}).", param="expand")
    if view[name] is None:
        return
    below = book.find(view[name] if isinstance(view[name], str) else view[name]["id"])
    if below is not None:
        inner = _view(below) if isinstance(view[name], str) else view[name]
        if parts[1:]:
            _expand(book, below, inner, parts[1:], path)
        view[name] = inner


def _view(one: Object) -> Object:
    return session_view(one) if one["object"] == "checkout.session" else dict(one)


def _views(book: Book, rows: list[Object], asked: Listing) -> list[Object]:
    return [expanded(book, one, asked, prefix="data.") for one in rows]


def _cursors(asked: Listing) -> tuple[str | None, str | None]:
    return asked.starting_after, asked.ending_before


def _place(rows: list[Object], id: str) -> int:
    return next(at for at, one in enumerate(rows) if one["id"] == id)


def _filter(asked: Listing) -> Callable[[Object], bool]:
    wanted = {
        name: getattr(asked, name)
        for name in asked.__struct_fields__
        if name not in _NOT_FILTERS and getattr(asked, name) is not None
    }
    bounds: dict[str, Any] = {}
    if isinstance(asked.created, int):
        bounds = {"gte": asked.created, "lte": asked.created}
    elif isinstance(asked.created, Created):
        bounds = {name: value for name, value in msgspec.structs.asdict(asked.created).items() if value is not None}

    def fits(one: Object) -> bool:
        at = one["created"]
        return (
            all(one.get(name) == value for name, value in wanted.items())
            and ("gt" not in bounds or at > bounds["gt"])
            and ("gte" not in bounds or at >= bounds["gte"])
            and ("lt" not in bounds or at < bounds["lt"])
            and ("lte" not in bounds or at <= bounds["lte"])
        )

    return fits
