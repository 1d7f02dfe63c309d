"""What is really in the database: counted and hashed by table, dumped as text, asked for audit rows and events."""

from typing import Any

TABLES = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY c.relname
"""
# A refused request has taken its place in a rate lane; that is how refusals are bounded.
TAKEN_BY_ASKING = frozenset({"rate_marks"})


async def tables(sql: Any) -> list[str]:
    return [row["relname"] for row in await sql.fetch(TABLES)]


async def contents(sql: Any) -> dict[str, tuple[int, str]]:
    """Rows and a hash over all of them, by table."""
    asked = " UNION ALL ".join(
        f"SELECT '{name}' AS name, count(*) AS rows, "
        f"md5(coalesce(string_agg(md5(t::text), '' ORDER BY md5(t::text)), '')) AS hash FROM {name} t"
        for name in await tables(sql)
        if name not in TAKEN_BY_ASKING
    )
    return {row["name"]: (row["rows"], row["hash"]) for row in await sql.fetch(asked)}


def changed(before: dict[str, tuple[int, str]], after: dict[str, tuple[int, str]]) -> list[str]:
    return [name for name in after if before[name] != after[name]]


async def tables_with(sql: Any, text: str) -> list[str]:
    """The tables in which a text stands, plainly or as the bytes of a bytea."""
    hexed = text.encode().hex()
    asked = " UNION ALL ".join(
        f"SELECT '{name}' AS name WHERE EXISTS (SELECT FROM {name} t WHERE position($1 IN t::text) > 0 "
        "OR position($2 IN t::text) > 0)"
        for name in await tables(sql)
    )
    return [row["name"] for row in await sql.fetch(asked, text, hexed)]


async def audit_of(sql: Any, correlation_id: str) -> list[Any]:
    return list(await sql.fetch("SELECT * FROM audit_log WHERE correlation_id = $1 ORDER BY id", correlation_id))


async def events_of(sql: Any, correlation_id: str) -> list[Any]:
    return list(await sql.fetch("SELECT * FROM outbox WHERE correlation_id = $1 ORDER BY id", correlation_id))


async def broken_invariants(sql: Any) -> list[tuple[str, str, str]]:
    """Rows of the invariant views, but of those about what other programs do in time: only the api runs here."""
    views = await sql.fetch(
        "SELECT relname FROM pg_class WHERE relkind = 'v' AND relname LIKE 'invariant\\_%' "
        "AND relname !~ '_(11|13|14|19|20)_'"
    )
    assert len(views) > 3
    return [
        (view["relname"], row["subject"], row["problem"])
        for view in views
        for row in await sql.fetch(f"SELECT * FROM {view['relname']}")
    ]
