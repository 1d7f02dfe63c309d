"""SQL of the sides that no single domain has: what migrations write down as views."""

from gpuaas.domains.billing.books.models import Problem
from gpuaas.infra.postgres.tx import Tx

MAX_PROBLEMS = 20
OCCUPIED = """
SELECT coalesce(sum(metered_seconds), 0)::bigint AS metered, coalesce(sum(occupied_seconds), 0)::bigint AS occupied
FROM proof_allocations
"""
OCCUPIED_OTHERWISE = """
SELECT 'allocation ' || allocation_id AS subject, 'metered for ' || metered_seconds || ' seconds, held and usable for '
       || occupied_seconds AS problem
FROM proof_allocations WHERE metered_seconds <> occupied_seconds ORDER BY allocation_id LIMIT $1
"""


async def occupied(tx: Tx) -> tuple[int, int]:
    """Seconds that meters count, and for which allocations were held and usable."""
    row = await tx.row(OCCUPIED)
    assert row is not None  # noqa: S101 # a sum has its row
    return row["metered"], row["occupied"]


async def occupied_otherwise(tx: Tx) -> list[Problem]:
    return [Problem(row["subject"], row["problem"]) for row in await tx.rows(OCCUPIED_OTHERWISE, MAX_PROBLEMS)]
