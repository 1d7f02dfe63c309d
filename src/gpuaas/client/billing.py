"""Verbs of money: balances, entries of the ledger, holds, adjustments, the books."""

from uuid import UUID

from gpuaas.client.call import Call
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.billing import (
    AdjustmentCreate,
    AdjustmentDecision,
    AdjustmentQuery,
    AdjustmentView,
    BalanceQuery,
    BalanceView,
    BooksVerification,
    BooksView,
    CreditLineSet,
    EntryView,
    LedgerFilter,
    LedgerQuery,
    MoneyHoldQuery,
    MoneyHoldView,
    MoneyHoldVoid,
    ProofView,
    ReversalCreate,
)


def balance_get(org_id: UUID, query: BalanceQuery) -> Call[BalanceView]:
    path = f"/orgs/{org_id}/balance"
    return Call(operation="balance_get", method="GET", path=path, answer=BalanceView, query=query)


def ledger_list(org_id: UUID, query: LedgerQuery) -> Call[Page[EntryView]]:
    path = f"/orgs/{org_id}/ledger"
    return Call(operation="ledger_list", method="GET", path=path, answer=Page[EntryView], query=query)


def ledger_export_csv(org_id: UUID, query: LedgerFilter) -> Call[bytes]:
    path = f"/orgs/{org_id}/ledger-export/csv"
    return Call(operation="ledger_export_csv", method="GET", path=path, answer=bytes, query=query)


def money_hold_list(org_id: UUID, query: MoneyHoldQuery) -> Call[Page[MoneyHoldView]]:
    path = f"/orgs/{org_id}/holds"
    return Call(operation="money_hold_list", method="GET", path=path, answer=Page[MoneyHoldView], query=query)


def money_hold_void(hold_id: UUID, wanted: MoneyHoldVoid) -> Call[MoneyHoldView]:
    path = f"/admin/holds/{hold_id}/void"
    return Call(operation="money_hold_void", method="POST", path=path, answer=MoneyHoldView, body=wanted)


def credit_line_set(org_id: UUID, wanted: CreditLineSet) -> Call[BalanceView]:
    path = f"/admin/orgs/{org_id}/credit-line"
    return Call(operation="credit_line_set", method="PUT", path=path, answer=BalanceView, body=wanted)


def adjustment_create(org_id: UUID, wanted: AdjustmentCreate) -> Call[AdjustmentView]:
    path = f"/admin/orgs/{org_id}/adjustments"
    return Call(operation="adjustment_create", method="POST", path=path, answer=AdjustmentView, body=wanted)


def adjustment_list(query: AdjustmentQuery) -> Call[Page[AdjustmentView]]:
    path = "/admin/adjustments"
    return Call(operation="adjustment_list", method="GET", path=path, answer=Page[AdjustmentView], query=query)


def adjustment_approve(adjustment_id: UUID, wanted: AdjustmentDecision) -> Call[AdjustmentView]:
    path = f"/admin/adjustments/{adjustment_id}/approve"
    return Call(operation="adjustment_approve", method="POST", path=path, answer=AdjustmentView, body=wanted)


def adjustment_reject(adjustment_id: UUID, wanted: AdjustmentDecision) -> Call[AdjustmentView]:
    path = f"/admin/adjustments/{adjustment_id}/reject"
    return Call(operation="adjustment_reject", method="POST", path=path, answer=AdjustmentView, body=wanted)


def ledger_reverse(transaction_id: UUID, wanted: ReversalCreate) -> Call[AdjustmentView]:
    path = f"/admin/ledger/{transaction_id}/reversal"
    return Call(operation="ledger_reverse", method="POST", path=path, answer=AdjustmentView, body=wanted)


def books_get() -> Call[BooksView]:
    return Call(operation="books_get", method="GET", path="/admin/books", answer=BooksView)


def books_verify() -> Call[BooksVerification]:
    return Call(operation="books_verify", method="GET", path="/ops/books/verify", answer=BooksVerification)


def proof_get(org_id: UUID) -> Call[ProofView]:
    return Call(operation="proof_get", method="GET", path=f"/orgs/{org_id}/proof", answer=ProofView)
