"""Every pattern of every text that comes from outside."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from gpuaas.domains import load_routes
from gpuaas.infra.http.operation import REGISTRY


def patterns(info: Any) -> Iterator[str]:
    """All patterns anywhere inside of a type."""
    if isinstance(info, msgspec.inspect.StrType):
        if info.pattern is not None:
            yield info.pattern
    elif isinstance(info, msgspec.inspect.StructType):
        for field in info.fields:
            yield from patterns(field.type)
    elif isinstance(info, msgspec.inspect.UnionType):
        for member in info.types:
            yield from patterns(member)
    elif isinstance(info, msgspec.inspect.Metadata):
        yield from patterns(info.type)
    elif isinstance(info, msgspec.inspect.ListType | msgspec.inspect.SetType | msgspec.inspect.FrozenSetType):
        yield from patterns(info.item_type)


def test_no_pattern_of_an_operation_lets_a_last_line_feed_through():
    load_routes()
    kinds = [kind for op in REGISTRY.json() for kind in (op.body, op.query, *op.path_params.values()) if kind]
    found = {pattern for kind in kinds for pattern in patterns(msgspec.inspect.type_info(kind))}
    assert found
    loose = [p for p in found if not (p.startswith("^") and re.search(r"\$\(\?!\\n\)$|\(\?!\[\\s\\S\]\)$", p))]
    assert loose == []
