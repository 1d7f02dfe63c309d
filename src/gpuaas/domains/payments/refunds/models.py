"""Rows of refunds."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.http.payments import RefundState
from gpuaas.kit.ids import MoneyHoldId, OrgId, PaymentId, RefundId, TransactionId


class Refund(msgspec.Struct, frozen=True, kw_only=True):
    id: RefundId
    org_id: OrgId
    payment_id: PaymentId
    currency: str
    amount_micros: int
    reason: str
    state: RefundState
    state_since: datetime
    due_at: datetime | None
    failure: str
    asked_by: str
    asked_by_id: UUID
    decided_by: str
    decided_by_id: UUID | None
    decision: str
    hold_id: MoneyHoldId | None
    provider_refund_id: str | None
    transaction_id: TransactionId | None
    created_at: datetime


class NewRefund(msgspec.Struct, frozen=True, kw_only=True):
    id: RefundId
    org_id: OrgId
    payment_id: PaymentId
    currency: str
    amount_micros: int
    reason: str
    proposed: bool
    asked_by: str
    asked_by_id: UUID
