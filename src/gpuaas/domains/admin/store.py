"""SQL about the installation itself, read with the platform's sight. What must hold is written in migrations, as views;
this only finds and asks them."""

import re

from gpuaas.domains.admin.models import Broken, Depths, Invariant
from gpuaas.infra.postgres.tx import Tx

MAX_FIRST = 20
MAX_COUNTED = 10_000
PATIENCE_SECONDS = 300
_NAME = re.compile(r"^invariant_[0-9]{2}_[a-z0-9_]{1,50}$")

INVARIANTS = """
SELECT viewname AS name, coalesce(obj_description(viewname::regclass, 'pg_class'), '') AS statement
FROM pg_views WHERE schemaname = 'public' AND starts_with(viewname, 'invariant_') ORDER BY viewname
"""
FIRST_OF = "SELECT subject, problem FROM {} LIMIT $1"
COUNT_OF = "SELECT count(*) FROM (SELECT FROM {} LIMIT $1) v"
NOTHING = "SELECT 1"
DEPTHS = """
SELECT coalesce((SELECT version_num FROM alembic_version), '') AS migration,
       waiting.unpublished AS outbox_unpublished, waiting.oldest_seconds AS outbox_oldest_seconds,
       (SELECT count(*) FROM dead_letters WHERE state = 'open') AS dead_letters_open,
       (SELECT count(*) FROM dead_letters WHERE state = 'replaying') AS dead_letters_replaying
FROM (SELECT count(*) AS unpublished,
             coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS oldest_seconds
      FROM (SELECT created_at FROM outbox WHERE published_at IS NULL ORDER BY id LIMIT $1) w) waiting
"""
# A consumer is behind since the first event after the last one it is known to be complete through.
LAGS = """
SELECT p.consumer, coalesce(extract(epoch FROM now() - o.created_at), 0)::float8 AS behind_seconds
FROM consumer_progress p
LEFT JOIN LATERAL (
    SELECT created_at FROM outbox WHERE id > p.checked_through ORDER BY id LIMIT 1
) o ON true
ORDER BY p.consumer LIMIT 200
"""


async def invariants(tx: Tx, *, asked_elsewhere: str) -> list[Invariant]:
    """Every invariant there is, each with what breaks it; one is asked by its own domain, with more."""
    await tx.be_patient(PATIENCE_SECONDS)
    return [
        Invariant(name=row["name"], statement=row["statement"], count=0, first=[])
        if row["name"] == asked_elsewhere
        else await _invariant(tx, row["name"], row["statement"])
        for row in await tx.rows(INVARIANTS)
    ]


async def _invariant(tx: Tx, name: str, statement: str) -> Invariant:
    if not _NAME.match(name):
        raise ValueError(f"{name} is not how an invariant is called: invariant_NN_what_holds")
    rows = await tx.rows(FIRST_OF.format(name), MAX_FIRST)
    count = len(rows) if len(rows) < MAX_FIRST else await tx.value(COUNT_OF.format(name), MAX_COUNTED)
    first = [Broken(row["subject"], row["problem"]) for row in rows]
    return Invariant(name=name, statement=statement, count=count, first=first)


async def ping(tx: Tx) -> None:
    await tx.value(NOTHING)


async def depths(tx: Tx) -> Depths:
    row = await tx.row(DEPTHS, MAX_COUNTED)
    return Depths(**dict(row or {}))


async def lags(tx: Tx) -> list[tuple[str, float]]:
    return [(row["consumer"], row["behind_seconds"]) for row in await tx.rows(LAGS)]
