"""Verbs of payments: topping up, refunds, and where the provider and we differ."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.payments import (
    DifferenceQuery,
    DifferenceView,
    PaymentAccept,
    PaymentAdminQuery,
    PaymentCreate,
    PaymentQuery,
    PaymentView,
    PortalView,
    ReconcileReport,
    RefundCreate,
    RefundDecision,
    RefundQuery,
    RefundView,
)


def payment_create(org_id: UUID, wanted: PaymentCreate) -> Call[PaymentView]:
    path = f"/orgs/{org_id}/payments"
    return Call(operation="payment_create", method="POST", path=path, answer=PaymentView, body=wanted)


def payment_list(org_id: UUID, query: PaymentQuery) -> Call[Page[PaymentView]]:
    path = f"/orgs/{org_id}/payments"
    return Call(operation="payment_list", method="GET", path=path, answer=Page[PaymentView], query=query)


def payment_get(org_id: UUID, payment_id: UUID) -> Call[PaymentView]:
    path = f"/orgs/{org_id}/payments/{payment_id}"
    return Call(operation="payment_get", method="GET", path=path, answer=PaymentView)


def payment_cancel(org_id: UUID, payment_id: UUID) -> Call[PaymentView]:
    path = f"/orgs/{org_id}/payments/{payment_id}/cancel"
    return Call(operation="payment_cancel", method="POST", path=path, answer=PaymentView)


def billing_portal_open(org_id: UUID) -> Call[PortalView]:
    path = f"/orgs/{org_id}/billing-portal"
    return Call(operation="billing_portal_open", method="POST", path=path, answer=PortalView)


def payment_list_all(query: PaymentAdminQuery) -> Call[Page[PaymentView]]:
    return Call(
        operation="payment_list_all", method="GET", path="/admin/payments", answer=Page[PaymentView], query=query
    )


def payment_accept(payment_id: UUID, wanted: PaymentAccept) -> Call[PaymentView]:
    path = f"/admin/payments/{payment_id}/accept"
    return Call(operation="payment_accept", method="POST", path=path, answer=PaymentView, body=wanted)


def refund_create(payment_id: UUID, wanted: RefundCreate) -> Call[RefundView]:
    path = f"/admin/payments/{payment_id}/refunds"
    return Call(operation="refund_create", method="POST", path=path, answer=RefundView, body=wanted)


def refund_list(query: RefundQuery) -> Call[Page[RefundView]]:
    return Call(operation="refund_list", method="GET", path="/admin/refunds", answer=Page[RefundView], query=query)


def refund_approve(refund_id: UUID, wanted: RefundDecision) -> Call[RefundView]:
    path = f"/admin/refunds/{refund_id}/approve"
    return Call(operation="refund_approve", method="POST", path=path, answer=RefundView, body=wanted)


def refund_reject(refund_id: UUID, wanted: RefundDecision) -> Call[RefundView]:
    path = f"/admin/refunds/{refund_id}/reject"
    return Call(operation="refund_reject", method="POST", path=path, answer=RefundView, body=wanted)


def payment_difference_list(query: DifferenceQuery) -> Call[Page[DifferenceView]]:
    path = "/admin/payment-differences"
    return Call(operation="payment_difference_list", method="GET", path=path, answer=Page[DifferenceView], query=query)


def reconcile() -> Call[ReconcileReport]:
    return Call(operation="reconcile", method="POST", path="/ops/reconcile", answer=ReconcileReport)
