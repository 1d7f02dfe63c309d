"""Verbs of paper: statements and invoices."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.invoices import InvoiceDetail, InvoiceListQuery, InvoiceView, StatementQuery, StatementView


def statement_get(org_id: UUID, query: StatementQuery) -> Call[StatementView]:
    path = f"/orgs/{org_id}/statement"
    return Call(operation="statement_get", method="GET", path=path, answer=StatementView, query=query)


def statement_export_pdf(org_id: UUID, query: StatementQuery) -> Call[bytes]:
    path = f"/orgs/{org_id}/statement-export/pdf"
    return Call(operation="statement_export_pdf", method="GET", path=path, answer=bytes, query=query)


def statement_export_csv(org_id: UUID, query: StatementQuery) -> Call[bytes]:
    path = f"/orgs/{org_id}/statement-export/csv"
    return Call(operation="statement_export_csv", method="GET", path=path, answer=bytes, query=query)


def invoice_list(org_id: UUID, query: InvoiceListQuery) -> Call[Page[InvoiceView]]:
    path = f"/orgs/{org_id}/invoices"
    return Call(operation="invoice_list", method="GET", path=path, answer=Page[InvoiceView], query=query)


def invoice_get(org_id: UUID, invoice_id: UUID) -> Call[InvoiceDetail]:
    path = f"/orgs/{org_id}/invoices/{invoice_id}"
    return Call(operation="invoice_get", method="GET", path=path, answer=InvoiceDetail)


def invoice_download_pdf(org_id: UUID, invoice_id: UUID) -> Call[bytes]:
    path = f"/orgs/{org_id}/invoices/{invoice_id}/pdf"
    return Call(operation="invoice_download_pdf", method="GET", path=path, answer=bytes)


def invoice_download_csv(org_id: UUID, invoice_id: UUID) -> Call[bytes]:
    path = f"/orgs/{org_id}/invoices/{invoice_id}/csv"
    return Call(operation="invoice_download_csv", method="GET", path=path, answer=bytes)
