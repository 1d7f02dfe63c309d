"""The verbs of paper: statements of any time, invoices of months, their files.

Always holds: what a paper says is what the ledger says, or there is no paper; an organisation has one invoice for a
month and currency; numbers of a year follow each other; what was issued is never changed, and its files can be made
again from it, byte for byte."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.invoices import StatementView
from gpuaas.domains.billing.invoices import csv_paper, pdf_paper, store
from gpuaas.domains.billing.invoices.models import Document, Due, Form, Invoice, Seller, Wanted
from gpuaas.domains.billing.invoices.periods import ends_of, month_of, wrong_with
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit import clock, log
from gpuaas.kit.errors import Detail, Missing, Refused
from gpuaas.kit.ids import OrgId, new_id
from gpuaas.ports.objects import ObjectMissing, Objects, ObjectsAway

MOST_ENTRIES = 2_000
BATCH = 500
BY = "system:billing.invoices"
RENDER = {Form.PDF: pdf_paper.render, Form.CSV: csv_paper.render}
_ENCODER = msgspec.json.Encoder(order="deterministic")

invoice_list = store.newest


class BooksDisagree(RuntimeError):
    """There is no paper: it would say what the ledger does not."""


def wanted_of(org_id: OrgId, currency: str, from_at: datetime | None, to_at: datetime | None) -> Wanted:
    now = clock.now()
    since, until = ends_of(from_at, to_at, now=now)
    wrong = wrong_with(since, until, now=now)
    if wrong is not None:
        raise Refused(Code.PERIOD_REFUSED, "That time cannot be asked for.", details=[Detail(*wrong)])
    return Wanted(org_id=org_id, currency=currency, from_at=since, to_at=until)


async def statement_get(db: Database, wanted: Wanted) -> StatementView:
    """What became of the balance in a time, in one snapshot."""
    async with db.snapshot(Sight(wanted.org_id)) as tx:
        return await _statement(tx, wanted)


async def statement_file(db: Database, wanted: Wanted, seller: Seller, form: Form) -> bytes:
    statement = await statement_get(db, wanted)
    document = Document(number="", issued_at=clock.now(), month=None, seller=seller.text, statement=statement)
    return await asyncio.to_thread(RENDER[form], document)


async def invoice_get(tx: Tx, org_id: OrgId, invoice_id: UUID) -> tuple[Invoice, Document]:
    invoice = await store.get(tx, org_id, invoice_id)
    if invoice is None:
        raise Missing(Code.INVOICE_MISSING, "There is no such invoice here.")
    return invoice, document_of(invoice)


def document_of(invoice: Invoice) -> Document:
    return msgspec.json.decode(invoice.document, type=Document)


async def invoice_file(db: Database, objects: Objects, org_id: OrgId, invoice_id: UUID, form: Form) -> bytes:
    """As it was kept; made again where it is not there, or not what was kept."""
    async with db.read(Sight(org_id)) as tx:
        invoice, document = await invoice_get(tx, org_id, invoice_id)
        kept = await store.kept(tx, invoice_id, form)
    if kept is not None:
        try:
            content = await objects.get(object_name(invoice, form))
            if _digest(content) == kept.digest:
                return content
            log.get_logger().error("the file of an invoice is damaged", invoice=invoice.number, form=form)
        except (ObjectMissing, ObjectsAway) as error:
            log.get_logger().warning("the file of an invoice is made again", invoice=invoice.number, why=str(error))
    return await asyncio.to_thread(RENDER[form], document)


async def invoices_issue(db: Database, seller: Seller, *, batch: int = BATCH) -> int:
    """One for each month that is over and has none. Each in a transaction of its own: what dies leaves whole ones, and
    an organisation whose books do not agree waits alone."""
    async with db.read(Sight(PLATFORM)) as tx:
        due = await store.due(tx, limit=batch)
    issued = 0
    for one in due:
        try:
            issued += await _issue(db, one, seller)
        except BooksDisagree as error:
            log.get_logger().error("an invoice is not made", org=str(one.org_id), month=str(one.month), why=str(error))
    return issued


async def _issue(db: Database, due: Due, seller: Seller) -> bool:
    since, until = month_of(due.month)
    wanted = Wanted(org_id=due.org_id, currency=due.currency, from_at=since, to_at=until)
    statement = await statement_get(db, wanted)
    async with db.transaction(Sight(PLATFORM), BY) as tx:
        at = await store.turn(tx)
        number = await store.next_number(tx, at.year)
        document = Document(number=str(number), issued_at=at, month=due.month, seller=seller.text, statement=statement)
        return await store.insert(tx, new_id(), due, number, document, _ENCODER.encode(document).decode())


async def invoices_keep(db: Database, objects: Objects, *, batch: int = BATCH) -> int:
    """Put the files of issued invoices where large things are kept. What was put and not written down is put again."""
    async with db.read(Sight(PLATFORM)) as tx:
        found = await store.unkept(tx, limit=batch)
    for invoice in found:
        made = {form: await asyncio.to_thread(RENDER[form], document_of(invoice)) for form in Form}
        for form, content in made.items():
            await objects.put(object_name(invoice, form), content)
        async with db.transaction(Sight(PLATFORM), BY) as tx:
            for form, content in made.items():
                await store.keep(tx, invoice, form, digest=_digest(content), size=len(content))
    return len(found)


async def whole(content: bytes) -> AsyncIterator[bytes]:
    """At once: papers are small."""
    yield content


def object_name(invoice: Invoice, form: Form) -> str:
    return f"invoices/{invoice.id}.{form}"


async def _statement(tx: Tx, wanted: Wanted) -> StatementView:
    sums, others = await store.sums(tx, wanted)
    entries = await store.entries(tx, wanted, limit=MOST_ENTRIES)
    usage = await store.usage(tx, wanted)
    opening = await ledger.balance_before(tx, wanted.org_id, currency=wanted.currency, at=wanted.from_at)
    closing = await ledger.balance_before(tx, wanted.org_id, currency=wanted.currency, at=wanted.to_at)
    name, title = await store.org_names(tx, wanted.org_id)
    if opening + sum(msgspec.structs.astuple(sums)) != closing or sum(one.micros for one in usage) != -sums.used_micros:
        raise BooksDisagree(f"the ledger does not agree with itself about {wanted}: see gpuaas ops books verify")
    return StatementView(
        org_id=wanted.org_id,
        org_name=name,
        org_title=title,
        currency=wanted.currency,
        from_at=wanted.from_at,
        to_at=wanted.to_at,
        opening_micros=opening,
        sums=sums,
        closing_micros=closing,
        usage=usage,
        entries=entries,
        unusable=await store.unusable(tx, wanted, limit=MOST_ENTRIES),
        left_out=others - len(entries),
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
