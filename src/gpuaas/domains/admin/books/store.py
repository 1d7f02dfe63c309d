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
PAID = """
SELECT currency, sum(paid_micros)::bigint AS paid, sum(credited_micros)::bigint AS credited FROM proof_payments
GROUP BY currency ORDER BY currency
"""
PAID_OTHERWISE = """
SELECT currency, coalesce('payment ' || payment_id, 'transaction ' || transaction_id) AS subject,
       'paid ' || paid_micros || ', credited ' || credited_micros AS problem
FROM proof_payments WHERE paid_micros <> credited_micros ORDER BY transaction_id LIMIT $1
"""
UNEXPLAINED = """
SELECT currency, sum(micros)::bigint AS micros,
       (array_agg('transaction ' || transaction_id ORDER BY transaction_id))[:20] AS first
FROM proof_clearing GROUP BY currency
"""


async def paid(tx: Tx) -> list[tuple[str, int, int]]:
    """By currency: what was paid in, and what the ledger credits for it."""
    return [(row["currency"], row["paid"], row["credited"]) for row in await tx.rows(PAID)]


async def paid_otherwise(tx: Tx) -> dict[str, list[Problem]]:
    found: dict[str, list[Problem]] = {}
    for row in await tx.rows(PAID_OTHERWISE, MAX_PROBLEMS):
        found.setdefault(row["currency"], []).append(Problem(row["subject"], row["problem"]))
    return found


async def unexplained(tx: Tx) -> dict[str, tuple[int, list[Problem]]]:
    """By currency: what went through the account of payment providers without a payment."""
    said = "it goes through the account of payment providers, and no payment explains it"
    return {
        row["currency"]: (row["micros"], [Problem(subject, said) for subject in row["first"]])
        for row in await tx.rows(UNEXPLAINED)
    }


async def occupied(tx: Tx) -> tuple[int, int]:
    """Seconds that meters count, and for which allocations were held and usable."""
    row = await tx.row(OCCUPIED)
    assert row is not None  # noqa: S101 # a sum has its row
    return row["metered"], row["occupied"]


async def occupied_otherwise(tx: Tx) -> list[Problem]:
    return [Problem(row["subject"], row["problem"]) for row in await tx.rows(OCCUPIED_OTHERWISE, MAX_PROBLEMS)]
