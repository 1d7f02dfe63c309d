"""Invoices in the small world: of months in which nothing happened, so that the ledger agrees. Each is one older."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec

from gpuaas.contracts.http.invoices import StatementSums, StatementView
from gpuaas.domains.billing.invoices.models import Document
from gpuaas.domains.billing.invoices.periods import month_of
from gpuaas.kit.ids import new_id
from tests.every.world import Setting

NOTHING = StatementSums(
    paid_in_micros=0, used_micros=0, used_back_micros=0, given_micros=0, refunded_micros=0, corrected_micros=0
)


async def put_invoice(s: Setting) -> UUID:
    invoice_id, issued_at = new_id(), datetime.now(UTC)
    first = await s.sql.fetchval("SELECT min(month) FROM invoices WHERE org_id = $1", s.org_id)
    month = ((first or issued_at.date()).replace(day=1) - timedelta(days=1)).replace(day=1)
    since, until = month_of(month)
    statement = StatementView(
        org_id=s.org_id,
        org_name="org",
        org_title="Organisation",
        currency="USD",
        from_at=since,
        to_at=until,
        opening_micros=0,
        sums=NOTHING,
        closing_micros=0,
        usage=[],
        entries=[],
        unusable=[],
        left_out=0,
    )
    async with s.sql.transaction():
        await s.sql.execute("SELECT pg_advisory_xact_lock(hashtextextended('invoices', 17))")
        serial = await s.sql.fetchval(
            "SELECT coalesce(max(serial), 0) + 1 FROM invoices WHERE year = $1", issued_at.year
        )
        document = Document(
            number=f"{issued_at.year}-{serial:06d}", issued_at=issued_at, month=month, seller="us", statement=statement
        )
        sums = {f"{name}_micros": 0 for name in ("opening", "closing")} | msgspec.structs.asdict(NOTHING)
        await s.put(
            "invoices",
            id=invoice_id,
            org_id=s.org_id,
            currency="USD",
            month=month,
            year=issued_at.year,
            serial=serial,
            **sums,
            document=msgspec.json.encode(document).decode(),
            issued_at=issued_at,
        )
        await s.put("invoice_files", invoice_id=invoice_id, org_id=s.org_id, form="pdf", digest="0" * 64, size=1)
    return invoice_id
