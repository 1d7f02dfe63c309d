"""The statements of a verb as pgbench can run them: recorded once, with what was sent along written into them. What is
made anew for each run (ids, names, keys) becomes an expression of pgbench's own random numbers."""

import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import asyncpg

from gpuaas.infra.postgres.tx import Row, Tx
from gpuaas.kit.ids import new_id

RANDOM = ["\\set a random(1, 1000000000)", "\\set b random(1, 1000000000)"]
_SAME = ":client_id::text || '-' || :a::text || '-' || :b::text"


def fresh_text(prefix: str) -> str:
    """A text that no other run has."""
    return f"('{prefix}-' || {_SAME})"


def fresh_id(number: int) -> str:
    """A UUIDv7 of today that no other run has; the same number is the same id within a run."""
    today = str(new_id())[:15]
    mixed = f"md5('{number}-' || {_SAME})"
    return (
        f"('{today}' || substr({mixed}, 1, 3) || '-8' || substr({mixed}, 4, 3) || '-' || substr({mixed}, 7, 12))::uuid"
    )


class RecordingTx(Tx):
    """Does what it is asked to, and remembers it."""

    __slots__ = ("statements",)

    def __init__(self, connection: Any, sight: Any, actor_name: str) -> None:
        super().__init__(connection, sight, actor_name)
        self.statements: list[tuple[str, tuple[Any, ...]]] = []

    async def row(self, sql: str, *args: Any) -> Row | None:
        self.statements.append((sql, args))
        return await super().row(sql, *args)

    async def rows(self, sql: str, *args: Any) -> list[Row]:
        self.statements.append((sql, args))
        return await super().rows(sql, *args)

    async def value(self, sql: str, *args: Any) -> Any:
        self.statements.append((sql, args))
        return await super().value(sql, *args)

    async def run(self, sql: str, *args: Any) -> int:
        self.statements.append((sql, args))
        return await super().run(sql, *args)


async def script(
    connection: "asyncpg.Connection[Row]",
    statements: list[tuple[str, tuple[Any, ...]]],
    *,
    known: frozenset[UUID],
    instead: Mapping[Any, str],
) -> str:
    """One transaction of them. Ids that are not `known` are new in each run; `instead` says what stands for a value."""
    fresh: dict[UUID, str] = {}
    lines = [*RANDOM, "BEGIN;"]
    for sql, args in statements:
        types = (await connection.prepare(sql)).get_parameters()
        values = [
            f"({_literal(arg, known, fresh, instead)})::{_type(kind)}" for arg, kind in zip(args, types, strict=True)
        ]
        bound = re.sub(r"\$(\d+)", lambda match, values=values: values[int(match[1]) - 1], sql)
        lines.append(" ".join(bound.split()) + ";")
    return "\n".join([*lines, "COMMIT;"])


def _type(kind: Any) -> str:
    return str(kind.name)


def _literal(value: Any, known: frozenset[UUID], fresh: dict[UUID, str], instead: Mapping[Any, str]) -> str:
    if isinstance(value, list):
        if tuple(value) in instead:
            return instead[tuple(value)]
        return f"ARRAY[{', '.join(_literal(one, known, fresh, instead) for one in value)}]"
    if value is not None and value in instead:
        return instead[value]
    if isinstance(value, UUID) and value not in known:
        return fresh.setdefault(value, fresh_id(len(fresh)))
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    # A colon would be a variable of pgbench's.
    return "'" + str(value).replace("'", "''").replace(":", "-") + "'"
