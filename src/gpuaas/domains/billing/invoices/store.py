"""SQL of statements and invoices.

What belongs to a time is what was posted in it: a range of the ledger's ids. Usage is of its transaction's time."""

from datetime import datetime, timedelta
from uuid import UUID

from gpuaas.contracts.http.invoices import StatementEntry, StatementSums, UnusableTime, UsageCharge
from gpuaas.domains.billing.invoices.models import Document, Due, Form, Invoice, Kept, Number, Wanted
from gpuaas.infra.postgres.tx import Tx, decode, decode_all
from gpuaas.kit.ids import OrgId, floor_id

_ENTRIES = """
FROM ledger_entries e JOIN ledger_transactions t ON t.id = e.transaction_id
WHERE e.account_id = (SELECT a.id FROM ledger_accounts a WHERE a.org_id = $1 AND a.kind = 'tenant' AND a.currency = $2)
  AND e.transaction_id >= $3 AND e.transaction_id < $4
"""
SUMS = f"""
SELECT invoice_sum_of(t.kind) AS name, count(*) AS entries, sum(e.amount_micros)::bigint AS micros {_ENTRIES} GROUP BY 1
"""
ENTRIES = f"""
SELECT t.id AS transaction_id, t.at, t.kind, t.subject_id, t.reason, e.amount_micros AS micros {_ENTRIES}
  AND t.kind <> 'usage' ORDER BY t.id LIMIT $5
"""
# A row of usage is written right after its transaction, so it lies near it; which time it belongs to, that one says.
USAGE = """
SELECT p.name AS project, p.title AS project_title, p.cost_centre, k.name AS sku, m.price_id,
       m.micros_per_hour / m.gpus AS micros_per_gpu_hour, count(DISTINCT m.id) AS allocations,
       sum(u.seconds * m.gpus)::bigint AS gpu_seconds, sum(u.micros)::bigint AS micros
FROM usage u JOIN meters m ON m.id = u.meter_id AND m.currency = $2
JOIN projects p ON p.id = m.project_id JOIN skus k ON k.id = m.sku_id
WHERE u.org_id = $1 AND u.id >= $5 AND u.id < $6 AND u.micros >= 0
  AND coalesce(u.transaction_id, u.id) >= $3 AND coalesce(u.transaction_id, u.id) < $4
GROUP BY p.id, k.id, m.price_id, 6 ORDER BY p.name, k.name, m.price_id
"""
UNUSABLE = """
SELECT m.subject_id AS allocation_id, p.name AS project, k.name AS sku, b.from_at, b.until_at, b.reason,
       floor(b.seconds)::bigint AS seconds, meter_owed(m.micros_per_hour, floor(b.seconds)::bigint) AS micros
FROM meters m JOIN projects p ON p.id = m.project_id JOIN skus k ON k.id = m.sku_id
CROSS JOIN LATERAL (
    SELECT s.from_at, s.until_at, s.reason,
           pause_seconds(greatest($3::timestamptz, m.opened_at), least($4::timestamptz, m.closed_at, clock_timestamp()),
                         s.from_at, s.until_at) AS seconds
    FROM meter_pauses s WHERE s.meter_id = m.id AND s.from_at < $4 AND (s.until_at IS NULL OR s.until_at > $3)
) AS b
WHERE m.org_id = $1 AND m.currency = $2 AND b.seconds >= 1 ORDER BY b.from_at, m.id LIMIT $5
"""
ORG = "SELECT name, title FROM orgs WHERE id = $1"
# A month is due when it is over for an hour: by then whatever was posted in it is there.
DUE = """
SELECT a.org_id, a.currency, s.month::date AS month
FROM (SELECT date_trunc('month', (clock_timestamp() AT TIME ZONE 'UTC') - interval '1 hour') AS month) AS n
CROSS JOIN generate_series(n.month - interval '1 year', n.month - interval '1 day', interval '1 month') AS s(month)
CROSS JOIN ledger_accounts a
WHERE a.kind = 'tenant'
  AND EXISTS (SELECT FROM ledger_entries e WHERE e.account_id = a.id
              AND e.transaction_id >= floor_id(s.month AT TIME ZONE 'UTC')
              AND e.transaction_id < floor_id((s.month + interval '1 month') AT TIME ZONE 'UTC'))
  AND NOT EXISTS (SELECT FROM invoices i
                  WHERE i.org_id = a.org_id AND i.currency = a.currency AND i.month = s.month::date)
ORDER BY s.month, a.id LIMIT $1
"""
# One at a time, and nobody has a number that is not written down: a failed one gives its number back.
LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('invoices', 17)), clock_timestamp() AS at"
NEXT = "SELECT coalesce(max(serial), 0) + 1 FROM invoices WHERE year = $1"
INSERT = """
INSERT INTO invoices (id, org_id, currency, month, year, serial, opening_micros, paid_in_micros, used_micros,
                      used_back_micros, given_micros, refunded_micros, corrected_micros, closing_micros, document,
                      issued_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
ON CONFLICT ON CONSTRAINT invoices_one_of_month DO NOTHING RETURNING id
"""
GET = "SELECT * FROM invoices WHERE id = $1 AND org_id = $2"
LIST = """
SELECT * FROM invoices WHERE org_id = $1 AND id < $2 AND ($3::text IS NULL OR currency = $3) ORDER BY id DESC LIMIT $4
"""
UNKEPT = """
SELECT * FROM invoices i WHERE NOT EXISTS (SELECT FROM invoice_files f WHERE f.invoice_id = i.id) ORDER BY id LIMIT $1
"""
KEPT = "SELECT invoice_id, form, digest, size FROM invoice_files WHERE invoice_id = $1 AND form = $2"
KEEP = """
INSERT INTO invoice_files (invoice_id, org_id, form, digest, size) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING
"""
NEAR = timedelta(days=2)


async def sums(tx: Tx, wanted: Wanted) -> tuple[StatementSums, int]:
    """By what it was for, and how many entries there are besides those of use."""
    rows = {row["name"]: row for row in await tx.rows(SUMS, *_asked(wanted))}
    found = {f"{name}_micros": int(rows[name]["micros"]) if name in rows else 0 for name in _NAMES}
    return StatementSums(**found), sum(row["entries"] for name, row in rows.items() if name != "used")


_NAMES = ("paid_in", "used", "used_back", "given", "refunded", "corrected")


async def entries(tx: Tx, wanted: Wanted, *, limit: int) -> list[StatementEntry]:
    return decode_all(StatementEntry, await tx.rows(ENTRIES, *_asked(wanted), limit))


async def usage(tx: Tx, wanted: Wanted) -> list[UsageCharge]:
    near = floor_id(wanted.from_at - NEAR), floor_id(wanted.to_at + NEAR)
    return decode_all(UsageCharge, await tx.rows(USAGE, *_asked(wanted), *near))


async def unusable(tx: Tx, wanted: Wanted, *, limit: int) -> list[UnusableTime]:
    rows = await tx.rows(UNUSABLE, wanted.org_id, wanted.currency, wanted.from_at, wanted.to_at, limit)
    return decode_all(UnusableTime, rows)


async def org_names(tx: Tx, org_id: OrgId) -> tuple[str, str]:
    row = await tx.row(ORG, org_id)
    return ("", "") if row is None else (row["name"], row["title"])


async def due(tx: Tx, *, limit: int) -> list[Due]:
    return decode_all(Due, await tx.rows(DUE, limit))


async def turn(tx: Tx) -> datetime:
    """Nobody else issues until this transaction ends. The database's clock."""
    row = await tx.row(LOCK)
    assert row is not None  # noqa: S101 # a statement without a table has its row
    at: datetime = row["at"]
    return at


async def next_number(tx: Tx, year: int) -> Number:
    return Number(year=year, serial=int(await tx.value(NEXT, year)))


async def insert(tx: Tx, invoice_id: UUID, due: Due, number: Number, document: Document, written: str) -> bool:
    """False: there is one already."""
    statement, summed = document.statement, document.statement.sums
    row = await tx.row(
        INSERT,
        invoice_id,
        due.org_id,
        due.currency,
        due.month,
        number.year,
        number.serial,
        statement.opening_micros,
        summed.paid_in_micros,
        summed.used_micros,
        summed.used_back_micros,
        summed.given_micros,
        summed.refunded_micros,
        summed.corrected_micros,
        statement.closing_micros,
        written,
        document.issued_at,
    )
    return row is not None


async def get(tx: Tx, org_id: OrgId, invoice_id: UUID) -> Invoice | None:
    row = await tx.row(GET, invoice_id, org_id)
    return None if row is None else decode(Invoice, row)


async def newest(tx: Tx, org_id: OrgId, *, before: UUID, currency: str | None, limit: int) -> list[Invoice]:
    return decode_all(Invoice, await tx.rows(LIST, org_id, before, currency, limit))


async def unkept(tx: Tx, *, limit: int) -> list[Invoice]:
    return decode_all(Invoice, await tx.rows(UNKEPT, limit))


async def kept(tx: Tx, invoice_id: UUID, form: Form) -> Kept | None:
    row = await tx.row(KEPT, invoice_id, form)
    return None if row is None else decode(Kept, row)


async def keep(tx: Tx, invoice: Invoice, form: Form, *, digest: str, size: int) -> None:
    await tx.run(KEEP, invoice.id, invoice.org_id, form, digest, size)


def _asked(wanted: Wanted) -> tuple[object, ...]:
    return wanted.org_id, wanted.currency, floor_id(wanted.from_at), floor_id(wanted.to_at)
