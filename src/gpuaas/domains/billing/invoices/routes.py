"""Statements and invoices of an organisation, as JSON, CSV and PDF."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.invoices import InvoiceDetail, InvoiceListQuery, InvoiceView, StatementQuery, StatementView
from gpuaas.contracts.permissions import P
from gpuaas.domains.billing.invoices import service
from gpuaas.domains.billing.invoices.models import MEDIA, Form, Invoice, Seller, Wanted
from gpuaas.infra.http.context import OrgContext
from gpuaas.infra.http.listing import before, page
from gpuaas.infra.http.operation import Lane, Stream, operation
from gpuaas.ports.objects import Objects

_PERIOD = (Code.PERIOD_REFUSED,)
_MISSING = (Code.INVOICE_MISSING,)
_ONE = "/orgs/{org_id}/invoices/{invoice_id}"


@operation(
    "GET",
    "/orgs/{org_id}/statement",
    permission=P.BILLING_READ,
    lane=Lane.ADMIN,
    transaction=False,
    tag="billing",
    errors=_PERIOD,
)
async def statement_get(cx: OrgContext, query: StatementQuery) -> StatementView:
    """Show what became of the balance in a time, and why: paid in, used, given back, refunded, corrected."""
    return await service.statement_get(cx.db, _wanted(cx, query))


@operation(
    "GET",
    "/orgs/{org_id}/statement-export/pdf",
    errors=_PERIOD,
    permission=P.BILLING_READ,
    lane=Lane.ADMIN,
    transaction=False,
    produces="application/pdf",
    tag="billing",
)
async def statement_export_pdf(cx: OrgContext, query: StatementQuery) -> Stream:
    """Export a statement as PDF."""
    return await _paper(cx, query, Form.PDF)


@operation(
    "GET",
    "/orgs/{org_id}/statement-export/csv",
    errors=_PERIOD,
    permission=P.BILLING_READ,
    lane=Lane.ADMIN,
    transaction=False,
    produces="text/csv",
    tag="billing",
)
async def statement_export_csv(cx: OrgContext, query: StatementQuery) -> Stream:
    """Export a statement as CSV."""
    return await _paper(cx, query, Form.CSV)


@operation("GET", "/orgs/{org_id}/invoices", permission=P.BILLING_READ, lane=Lane.DEFAULT, tag="billing")
async def invoice_list(cx: OrgContext, query: InvoiceListQuery) -> Page[InvoiceView]:
    """List invoices, newest first. There is one for each month and currency in which the balance changed."""
    rows = await service.invoice_list(
        cx.tx, cx.org_id, before=before(cx, query), currency=query.currency, limit=query.limit + 1
    )
    return page(cx, query, rows, invoice_view)


@operation("GET", _ONE, permission=P.BILLING_READ, lane=Lane.DEFAULT, tag="billing", errors=_MISSING)
async def invoice_get(cx: OrgContext, invoice_id: UUID) -> InvoiceDetail:
    """Show an invoice as it was issued."""
    invoice, document = await service.invoice_get(cx.tx, cx.org_id, invoice_id)
    return InvoiceDetail(invoice=invoice_view(invoice), seller=document.seller, statement=document.statement)


@operation(
    "GET",
    _ONE + "/pdf",
    permission=P.BILLING_READ,
    lane=Lane.ADMIN,
    transaction=False,
    produces="application/pdf",
    tag="billing",
    errors=_MISSING,
)
async def invoice_download_pdf(cx: OrgContext, invoice_id: UUID) -> Stream:
    """Download an invoice as PDF."""
    return await _file(cx, invoice_id, Form.PDF)


@operation(
    "GET",
    _ONE + "/csv",
    permission=P.BILLING_READ,
    lane=Lane.ADMIN,
    transaction=False,
    produces="text/csv",
    tag="billing",
    errors=_MISSING,
)
async def invoice_download_csv(cx: OrgContext, invoice_id: UUID) -> Stream:
    """Download an invoice as CSV."""
    return await _file(cx, invoice_id, Form.CSV)


async def _paper(cx: OrgContext, query: StatementQuery, form: Form) -> Stream:
    wanted = _wanted(cx, query)
    content = await service.statement_file(cx.db, wanted, cx.parts.get(Seller), form)
    return Stream(
        service.whole(content), MEDIA[form], f"statement-{wanted.from_at:%Y%m%d}-{wanted.to_at:%Y%m%d}.{form}"
    )


async def _file(cx: OrgContext, invoice_id: UUID, form: Form) -> Stream:
    objects = cx.parts.get(Objects)  # type: ignore[type-abstract] # the part is whatever implements it
    content = await service.invoice_file(cx.db, objects, cx.org_id, invoice_id, form)
    return Stream(service.whole(content), MEDIA[form], f"invoice-{invoice_id}.{form}")


def _wanted(cx: OrgContext, query: StatementQuery) -> Wanted:
    return service.wanted_of(cx.org_id, query.currency, query.from_at, query.to_at)


def invoice_view(invoice: Invoice) -> InvoiceView:
    return InvoiceView(
        id=invoice.id,
        number=invoice.number,
        org_id=invoice.org_id,
        currency=invoice.currency,
        month=invoice.month,
        used_micros=-(invoice.used_micros + invoice.used_back_micros),
        opening_micros=invoice.opening_micros,
        closing_micros=invoice.closing_micros,
        issued_at=invoice.issued_at,
    )
