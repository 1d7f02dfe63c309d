"""Rows of adjustments."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.http.billing import AdjustmentState
from gpuaas.kit.ids import AdjustmentId, OrgId, TransactionId


class Adjustment(msgspec.Struct, frozen=True, kw_only=True):
    id: AdjustmentId
    org_id: OrgId
    currency: str
    amount_micros: int
    """What the organisation gets."""
    reverses_id: TransactionId | None
    reason: str
    state: AdjustmentState
    state_since: datetime
    due_at: datetime | None
    proposed_by: str
    proposed_by_id: UUID
    decided_by: str
    decided_by_id: UUID | None
    decision: str
    transaction_id: TransactionId | None
    created_at: datetime


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants to do to a balance."""

    org_id: OrgId
    currency: str
    amount_micros: int
    reason: str
    reverses_id: TransactionId | None = None
