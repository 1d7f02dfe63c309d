"""SQL over the whole ledger, read with the platform's sight in one snapshot."""

from gpuaas.domains.billing.anchors import service as anchors
from gpuaas.domains.billing.books.models import Book, Problem, Proof
from gpuaas.infra.postgres.tx import Row, Tx, decode_all

MAX_PROBLEMS = 20
PATIENCE_SECONDS = 600
OWN_PATIENCE_SECONDS = 25
WORK_MEMORY = "SELECT set_config('work_mem', '128MB', true)"
INVARIANTS = (
    "invariant_01_balance_is_sum",
    "invariant_02_transactions_balance",
    "invariant_02_one_key_one_transaction",
    "invariant_03_floors",
    "invariant_03_reversed_once",
    "invariant_08_usage_is_posted",
)
BOOKS = """
SELECT a.kind, a.currency, count(*) AS accounts, coalesce(sum(h.number), 0)::bigint AS entries,
       coalesce(sum(h.balance_micros), 0)::bigint AS balance_micros
FROM ledger_accounts a CROSS JOIN LATERAL ledger_head(a.id) AS h
GROUP BY a.kind, a.currency ORDER BY a.currency, a.kind
"""
# Each hash is made again from the row, its transaction and the hash before it. Only what is narrow is sorted, and what
# is hashed of a transaction is written once for all of its legs: that is half of the time.
BROKEN = """
SELECT count(*) AS entries, count(*) FILTER (WHERE e.hash IS DISTINCT FROM ledger_hash(
           e.before, t.body, e.account_id, e.number, e.amount_micros, e.balance_micros)) AS broken
FROM (SELECT account_id, transaction_id, number, amount_micros, balance_micros, hash,
             lag(hash) OVER (PARTITION BY account_id ORDER BY transaction_id) AS before
      FROM ledger_entries OFFSET 0) AS e
LEFT JOIN (SELECT t.id, ledger_body(t.id, t.at, t.kind, t.key, t.org_id, t.currency, t.subject_id, t.reason,
                                    t.reverses_id, t.actor, t.correlation_id) AS body
           FROM ledger_transactions t OFFSET 0) AS t ON t.id = e.transaction_id
"""
# Where it is broken: a changed row is found once, and it is said whether all legs of its transaction are.
CHAIN = """
WITH links AS (
    SELECT e.account_id, e.transaction_id, e.number, e.hash IS DISTINCT FROM ledger_hash(
               lag(e.hash) OVER along,
               ledger_body(t.id, t.at, t.kind, t.key, t.org_id, t.currency, t.subject_id, t.reason, t.reverses_id,
                           t.actor, t.correlation_id),
               e.account_id, e.number, e.amount_micros, e.balance_micros) AS broken
    FROM ledger_entries e LEFT JOIN ledger_transactions t ON t.id = e.transaction_id
    WINDOW along AS (PARTITION BY e.account_id ORDER BY e.transaction_id)
)
SELECT l.account_id, l.transaction_id, l.number, w.legs, w.broken_legs FROM links l
JOIN (SELECT transaction_id, count(*) AS legs, count(*) FILTER (WHERE broken) AS broken_legs FROM links
      WHERE transaction_id IN (SELECT transaction_id FROM links WHERE broken) GROUP BY transaction_id) AS w
  ON w.transaction_id = l.transaction_id
WHERE l.broken ORDER BY l.transaction_id, l.account_id LIMIT $1
"""
ACCOUNTS = """
SELECT 'account ' || a.id AS subject, 'it says ' || a.kind || ' ' || a.currency || ', and was not made so' AS problem
FROM ledger_accounts a WHERE a.seal <> ledger_seal(a) LIMIT $1
"""
USED = """
SELECT currency, sum(ledger)::bigint AS ledger, sum(rated)::bigint AS rated FROM (
    SELECT t.currency, -e.amount_micros AS ledger, 0 AS rated
    FROM ledger_entries e JOIN ledger_transactions t ON t.id = e.transaction_id
    WHERE t.kind IN ('usage', 'usage_credit') AND e.org_id IS NOT NULL
    UNION ALL SELECT currency, 0, rated_micros FROM proof_meters
) AS sides GROUP BY currency
"""
USED_OTHERWISE = """
SELECT m.currency, 'meter ' || m.meter_id AS subject,
       'of ' || m.subject_id || ': charged ' || m.charged_micros || ' for '
       || m.seconds || ' seconds, which cost ' || m.rated_micros AS problem
FROM proof_meters m WHERE m.charged_micros <> m.rated_micros ORDER BY m.meter_id LIMIT $1
"""
TRANSACTIONS = "SELECT count(*) FROM ledger_transactions"
FIRST_OF = "SELECT subject, problem FROM {} LIMIT $1"


async def books(tx: Tx) -> list[Book]:
    return decode_all(Book, await tx.rows(BOOKS))


async def proof(tx: Tx) -> Proof:
    """Every hash made again, and what the invariants of the ledger find."""
    return await _proof(tx, [ACCOUNTS, *(FIRST_OF.format(name) for name in INVARIANTS)], PATIENCE_SECONDS)


async def own_proof(tx: Tx) -> Proof:
    """The chain of the entries that are seen, and their balances; the other legs are not seen."""
    return await _proof(tx, [FIRST_OF.format(INVARIANTS[0])], OWN_PATIENCE_SECONDS)


async def used(tx: Tx) -> dict[str, tuple[int, int]]:
    """By currency: what the ledger took for use, and what the metered seconds cost."""
    return {row["currency"]: (row["ledger"], row["rated"]) for row in await tx.rows(USED)}


async def used_otherwise(tx: Tx) -> dict[str, list[Problem]]:
    """Meters that were charged something else than their seconds cost, and postings that are not their usage."""
    found: dict[str, list[Problem]] = {}
    for row in await tx.rows(USED_OTHERWISE, MAX_PROBLEMS):
        found.setdefault(row["currency"], []).append(Problem(row["subject"], row["problem"]))
    return found


async def _proof(tx: Tx, others: list[str], patience_seconds: int) -> Proof:
    await tx.be_patient(patience_seconds)
    await tx.value(WORK_MEMORY)
    counted = await tx.row(BROKEN)
    assert counted is not None  # noqa: S101 # a count has its row
    count = int(counted["broken"])
    problems = [_changed(row) for row in await tx.rows(CHAIN, MAX_PROBLEMS)] if count else []
    for statement in others:
        found = await tx.rows(statement, MAX_PROBLEMS)
        problems += [Problem(row["subject"], row["problem"]) for row in found]
        count += len(found)
    anchored = await anchors.flaws(tx)
    problems += [Problem(flaw.subject, flaw.problem) for flaw in anchored]
    count += len(anchored)
    return Proof(
        transactions=int(await tx.value(TRANSACTIONS)),
        entries=int(counted["entries"]),
        count=count,
        problems=problems[:MAX_PROBLEMS],
    )


def _changed(found: Row) -> Problem:
    subject = f"account {found['account_id']} entry {found['number']}"
    where = f"transaction {found['transaction_id']}"
    if found["legs"] == found["broken_legs"]:
        return Problem(subject, f"{where}, or all of its entries, was changed after it was posted")
    return Problem(subject, f"this entry of {where} was changed after it was posted, or the one before it taken out")
