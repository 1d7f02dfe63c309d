"""Every pattern of every text that comes from outside."""

import re
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import pytest

from gpuaas.contracts.http.patterns import WORDS
from gpuaas.domains import load_routes
from gpuaas.infra.http.operation import REGISTRY
from gpuaas.infra.http.request import in_words


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
    elif isinstance(info, msgspec.inspect.DictType):
        yield from patterns(info.key_type)
        yield from patterns(info.value_type)


def every_pattern() -> set[str]:
    load_routes()
    operations = REGISTRY.json() + REGISTRY.agent()
    kinds = [kind for op in operations for kind in (op.body, op.query, *op.path_params.values()) if kind]
    return {pattern for kind in kinds for pattern in patterns(msgspec.inspect.type_info(kind))}


def test_every_pattern_of_an_operation_is_said_in_words():
    assert every_pattern() - set(WORDS) == set(), "say in gpuaas/contracts/http/patterns.py what they ask for"


@pytest.mark.parametrize("pattern", WORDS)
def test_who_breaks_a_pattern_reads_its_words_and_not_the_pattern(pattern: str):
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert({"a": "\x07"}, dict[str, Annotated[str, msgspec.Meta(pattern=pattern)]])
    assert in_words(refused.value) == f"Expected {WORDS[pattern]} - at `$[...]`"


def test_no_pattern_of_an_operation_lets_a_last_line_feed_through():
    found = every_pattern()
    assert found
    loose = [p for p in found if not (p.startswith("^") and re.search(r"\$\(\?!\\n\)$|\(\?!\[\\s\\S\]\)$|\\Z$", p))]
    assert loose == []


@pytest.mark.parametrize(("text", "words"), [("x", "at least 3 characters"), ("x" * 9, "at most 5 characters")])
def test_who_breaks_a_length_reads_it_in_words(text: str, words: str):
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(text, Annotated[str, msgspec.Meta(min_length=3, max_length=5)])
    assert in_words(caught.value) == f"Expected {words}"
