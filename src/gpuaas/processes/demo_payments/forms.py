"""Form-encoded requests as Stripe takes them: `line_items[0][price_data][currency]=usd` becomes nested values.

Always holds: bounded in fields, depth and length; a name that means two things is refused, never guessed at."""

import re
from typing import Any
from urllib.parse import parse_qsl

from gpuaas.processes.demo_payments.errors import invalid

MAX_FIELDS = 400
MAX_DEPTH = 6
MAX_NAME = 200
MAX_VALUE = 5_000
MAX_INDEX = 100
_NAME = re.compile(r"([A-Za-z0-9_]+)((?:\[[A-Za-z0-9_ .:-]*\])*)")


def read_form(raw: bytes) -> dict[str, Any]:
    """Nested values, all of them text; a list where the names are numbers."""
    try:
        found = parse_qsl(raw.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except (UnicodeError, ValueError):
        raise invalid("The request's parameters could not be read: send them form-encoded, as UTF-8.") from None
    tree: dict[str, Any] = {}
    for name, value in found:
        if "\0" in value or len(value) > MAX_VALUE:
            raise invalid("A value is too long or has a NUL character.", param=name[:MAX_NAME])
        _place(tree, name, value)
    return {name: _listed(value, 1) for name, value in tree.items()}


def _place(tree: dict[str, Any], name: str, value: str) -> None:
    parsed = _NAME.fullmatch(name) if len(name) <= MAX_NAME else None
    if parsed is None:
        raise invalid("A parameter's name could not be read.", param=name[:MAX_NAME])
    path = [parsed[1], *(part for part in parsed[2][1:-1].split("][") if parsed[2])]
    if len(path) > MAX_DEPTH:
        raise invalid("The parameters are nested too deeply.", param=name)
    at = tree
    for part in path[:-1]:
        at = at.setdefault(part, {})
        if not isinstance(at, dict):
            raise invalid("A parameter is both a value and a group.", param=name)
    last = path[-1] or str(len(at))
    if last in at:
        raise invalid("A parameter is given twice.", param=name)
    at[last] = value


def _listed(value: Any, depth: int) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {name: _listed(one, depth + 1) for name, one in value.items()}
    if inner and all(name.isdecimal() and name.isascii() and int(name[:9]) <= MAX_INDEX for name in inner):
        return [inner[name] for name in sorted(inner, key=int)]
    return inner


def bracketed(path: str) -> str:
    """`line_items[0].price_data` as a sender of forms writes it: `line_items[0][price_data]`."""
    first, *rest = path.split(".")
    return first + "".join(
        f"[{part}]" if "[" not in part else f"[{part.replace('[', '][', 1)}" for part in rest if part
    )
