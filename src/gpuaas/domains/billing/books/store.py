"""SQL over the whole ledger, read with the platform's sight in one snapshot."""

from gpuaas.domains.billing.anchors import service as anchors
from gpuaas.domains.billing.books.models import Book, Problem, Proof
from gpuaas.infra.postgres.tx import Row, Tx, decode_all

MAX_PROBLEMS = 20
PATIENCE_SECONDS = 600
WORK_MEMORY = "SELECT set_config('work_mem', '128MB', true)"
INVARIANTS = (
    "invariant_01_balance_is_sum",
    "invariant_02_transactions_balance",
    "invariant_02_one_key_one_transaction",
    "invariant_03_floors",
    "invariant_03_reversed_once",
)
BOOKS = """
SELECT a.kind, a.currency, count(*) AS accounts, coalesce(sum(h.number), 0)::bigint AS entries,
       coalesce(sum(h.balance_micros), 0)::bigint AS balance_micros
FROM ledger_accounts a CROSS JOIN LATERAL ledger_head(a.id) AS h
GROUP BY a.kind, a.currency ORDER BY a.currency, a.kind
"""
# Each hash is made again from the row, its transaction and the hash before it, so that a changed row is found once, and
# where it is.
CHAIN = """
WITH links AS (
    SELECT e.account_id, e.transaction_id, e.number, e.hash IS DISTINCT FROM ledger_hash(
               lag(e.hash) OVER along,
               ledger_body(t.id, t.at, t.kind, t.key, t.org_id, t.currency, t.subject_id, t.reason, t.reverses_id,
                           t.actor, t.correlation_id),
               e.account_id, e.number, e.amount_micros, e.balance_micros) AS broken
    FROM ledger_entries e LEFT JOIN ledger_transactions t ON t.id = e.transaction_id
    WINDOW along AS (PARTITION BY e.account_id ORDER BY e.transaction_id)
), counted AS (
    SELECT count(*) AS entries, count(*) FILTER (WHERE broken) AS broken FROM links
)
SELECT c.entries, c.broken, b.account_id, b.transaction_id, b.number, b.legs, b.broken_legs
FROM counted c LEFT JOIN LATERAL (
    SELECT l.*, w.legs, w.broken_legs FROM links l
    JOIN (SELECT transaction_id, count(*) AS legs, count(*) FILTER (WHERE broken) AS broken_legs FROM links
          WHERE transaction_id IN (SELECT transaction_id FROM links WHERE broken) GROUP BY transaction_id) AS w
      ON w.transaction_id = l.transaction_id
    WHERE l.broken ORDER BY l.transaction_id, l.account_id LIMIT $1
) AS b ON true
"""
TRANSACTIONS = "SELECT count(*) FROM ledger_transactions"
FIRST_OF = "SELECT subject, problem FROM {} LIMIT $1"


async def books(tx: Tx) -> list[Book]:
    return decode_all(Book, await tx.rows(BOOKS))


async def proof(tx: Tx) -> Proof:
    """Every hash made again, and what the invariants of the ledger find."""
    await tx.be_patient(PATIENCE_SECONDS)
    await tx.value(WORK_MEMORY)
    rows = await tx.rows(CHAIN, MAX_PROBLEMS)
    problems = [_changed(row) for row in rows if row["transaction_id"] is not None]
    count = int(rows[0]["broken"])
    for name in INVARIANTS:
        found = await tx.rows(FIRST_OF.format(name), MAX_PROBLEMS)
        problems += [Problem(row["subject"], row["problem"]) for row in found]
        count += len(found)
    anchored = await anchors.flaws(tx)
    problems += [Problem(flaw.subject, flaw.problem) for flaw in anchored]
    count += len(anchored)
    return Proof(
        transactions=int(await tx.value(TRANSACTIONS)),
        entries=int(rows[0]["entries"]),
        count=count,
        problems=problems[:MAX_PROBLEMS],
    )


def _changed(found: Row) -> Problem:
    subject = f"account {found['account_id']} entry {found['number']}"
    where = f"transaction {found['transaction_id']}"
    if found["legs"] == found["broken_legs"]:
        return Problem(subject, f"{where}, or all of its entries, was changed after it was posted")
    return Problem(subject, f"this entry of {where} was changed after it was posted, or the one before it taken out")
