"""Rows of payments."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.http.payments import PaymentState
from gpuaas.kit.ids import OrgId, PaymentId, TransactionId


class Payment(msgspec.Struct, frozen=True, kw_only=True):
    id: PaymentId
    org_id: OrgId
    provider: str
    currency: str
    amount_micros: int
    state: PaymentState
    state_since: datetime
    due_at: datetime | None
    asked_by: str
    asked_by_id: UUID
    asked_key: str
    """Who asked with which key: the same request is the same payment."""
    expires_at: datetime
    """When its page closes."""
    session_id: str | None
    intent_id: str | None
    url: str
    refunded_micros: int
    disputed_micros: int
    dispute: str
    failure: str
    transaction_id: TransactionId | None
    created_at: datetime
    paid_at: datetime | None
    taken_micros: int | None
    """What the provider took, where that is not what was asked for."""
    taken_currency: str
    taken_session: str | None
    taken_intent: str | None
    accept_by: str
    accept_by_id: UUID | None
    """Who would have that credited."""
    accept_reason: str


class NewPayment(msgspec.Struct, frozen=True, kw_only=True):
    id: PaymentId
    org_id: OrgId
    provider: str
    currency: str
    amount_micros: int
    asked_by: str
    asked_by_id: UUID
    asked_key: str
    checkout_minutes: int
