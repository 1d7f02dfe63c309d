"""SQL of anchors: the last entries of the platform's accounts. Every transaction has a leg in one of them."""

from collections.abc import Sequence

from gpuaas.domains.billing.anchors.models import Head
from gpuaas.infra.postgres.tx import Row, Tx

HEADS = """
SELECT a.id AS account_id, h.transaction_id, encode(h.hash, 'hex') AS hash
FROM ledger_accounts a CROSS JOIN LATERAL ledger_head(a.id) AS h
WHERE a.org_id IS NULL AND h.transaction_id IS NOT NULL ORDER BY a.id
"""
LOST = """
SELECT u.account_id, u.transaction_id, e.hash IS NULL AS gone
FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS u (account_id, transaction_id, hash)
LEFT JOIN ledger_entries e ON e.account_id = u.account_id AND e.transaction_id = u.transaction_id
WHERE encode(e.hash, 'hex') IS DISTINCT FROM u.hash ORDER BY u.transaction_id
"""


async def heads(tx: Tx) -> list[Head]:
    return [Head(*row) for row in await tx.rows(HEADS)]


async def lost(tx: Tx, known: Sequence[Head]) -> list[Row]:
    """Those of which the ledger has no such entry any more."""
    columns = [one.account_id for one in known], [one.transaction_id for one in known], [one.hash for one in known]
    return await tx.rows(LOST, *columns)
