"""SQL of comparisons with the provider."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from gpuaas.domains.payments.reconciling.models import Difference, Found, Report, Sides, Statement
from gpuaas.infra.postgres.tx import Tx, decode_all
from gpuaas.kit.ids import new_id

KEEP = """
INSERT INTO payment_statements (object_id, kind, payment_id, currency, amount_micros)
SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[], $4::text[], $5::bigint[])
ON CONFLICT (object_id) DO UPDATE SET amount_micros = excluded.amount_micros, seen_at = now(),
    payment_id = coalesce(excluded.payment_id, payment_statements.payment_id)
"""
DIFFERS = """
INSERT INTO payment_differences (id, kind, object_id, payment_id, currency, ours_micros, theirs_micros, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (kind, object_id) WHERE settled_at IS NULL DO UPDATE SET seen_at = now(),
    ours_micros = excluded.ours_micros, theirs_micros = excluded.theirs_micros, detail = excluded.detail
"""
SETTLED = """
UPDATE payment_differences SET settled_at = now()
WHERE settled_at IS NULL AND seen_at < $1 AND object_id = ANY($2)
"""
LIST = """
SELECT * FROM payment_differences WHERE id < $1 AND ($2 OR settled_at IS NULL) ORDER BY id DESC LIMIT $3
"""
REPORT = """
INSERT INTO payment_reconciliations (id, began_at, checkouts, refunds, disputes, healed, differences)
VALUES ($1, $2, $3, $4, $5, $6, $7)
"""
LAST = "SELECT max(began_at) FROM payment_reconciliations"
SIDES = "SELECT currency, provider_micros, ledger_micros, as_of FROM payment_sides ORDER BY currency"
NOT_THERE = """
SELECT e.object_id, e.payment_id, e.currency, e.amount_micros FROM payment_effects e
WHERE e.effect IN ('paid', 'refunded') AND e.at >= $1 AND e.at < $2
  AND NOT EXISTS (SELECT FROM payment_statements s WHERE s.object_id = e.object_id) LIMIT $3
"""
# As old as that when the provider was last asked: its lists begin later by then, so none of it is ever listed again.
PRUNE = """
WITH last AS (SELECT max(began_at) AS at FROM payment_reconciliations), gone AS (
    DELETE FROM payment_statements WHERE object_id IN (
        SELECT s.object_id FROM payment_statements s
        WHERE s.seen_at < (SELECT at FROM last) - $1::interval
          AND NOT EXISTS (SELECT FROM payment_differences d WHERE d.object_id = s.object_id AND d.settled_at IS NULL)
        ORDER BY s.seen_at LIMIT $2 FOR UPDATE SKIP LOCKED)
    RETURNING currency, amount_micros
), kept AS (
    INSERT INTO payment_statement_sums AS k (currency, amount_micros, objects)
    SELECT currency, sum(amount_micros)::bigint, count(*) FROM gone GROUP BY currency
    ON CONFLICT (currency) DO UPDATE SET amount_micros = k.amount_micros + excluded.amount_micros,
        objects = k.objects + excluded.objects
)
SELECT count(*) FROM gone
"""
PRUNE_REPORTS = """
DELETE FROM payment_reconciliations WHERE id IN (
    SELECT id FROM payment_reconciliations
    WHERE began_at < now() - $1::interval AND began_at < (SELECT max(began_at) FROM payment_reconciliations) LIMIT $2)
"""
OPEN = "SELECT count(*) FROM payment_differences WHERE settled_at IS NULL"


async def keep(tx: Tx, said: Sequence[Statement]) -> None:
    await tx.run(
        KEEP,
        [one.object_id for one in said],
        [one.kind for one in said],
        [one.payment_id for one in said],
        [one.currency for one in said],
        [one.amount_micros for one in said],
    )


async def differs(tx: Tx, found: Found) -> None:
    await tx.run(
        DIFFERS,
        new_id(),
        found.kind,
        found.object_id,
        found.payment_id,
        found.currency,
        found.ours_micros,
        found.theirs_micros,
        found.detail[:500],
    )


async def settled(tx: Tx, looked_at: Sequence[str], *, before: datetime) -> int:
    """Those of the objects looked at since then that do not differ any more."""
    return await tx.run(SETTLED, before, list(looked_at))


async def list_all(tx: Tx, *, before: UUID, settled: bool, limit: int) -> list[Difference]:
    return decode_all(Difference, await tx.rows(LIST, before, settled, limit))


async def report(tx: Tx, made: Report) -> None:
    await tx.run(
        REPORT,
        new_id(),
        made.began_at,
        made.checkouts,
        made.refunds,
        made.disputes,
        made.healed,
        made.differences,
    )


async def last(tx: Tx) -> datetime | None:
    found: datetime | None = await tx.value(LAST)
    return found


async def sides(tx: Tx) -> list[Sides]:
    return decode_all(Sides, await tx.rows(SIDES))


async def not_there(tx: Tx, *, since: datetime, until: datetime, limit: int) -> list[tuple[str, UUID, str, int]]:
    rows = await tx.rows(NOT_THERE, since, until, limit)
    return [(row["object_id"], row["payment_id"], row["currency"], row["amount_micros"]) for row in rows]


async def open_count(tx: Tx) -> int:
    return int(await tx.value(OPEN))


async def prune(tx: Tx, *, older: timedelta, limit: int) -> int:
    """Statements; their sum is kept."""
    return int(await tx.value(PRUNE, older, limit))


async def prune_reports(tx: Tx, *, older: timedelta, limit: int) -> int:
    """Never the last one: the next comparison begins there."""
    return await tx.run(PRUNE_REPORTS, older, limit)
