"""Identifiers. Every id is a UUIDv7, so that ids sort by birth and time-partitioned tables can be cut by id. Those one
process makes sort by birth within a millisecond too."""

import os
import threading
from datetime import datetime
from typing import NewType
from uuid import UUID

from gpuaas.kit import clock

OrgId = NewType("OrgId", UUID)
ProjectId = NewType("ProjectId", UUID)
UserId = NewType("UserId", UUID)
ServiceAccountId = NewType("ServiceAccountId", UUID)
KeyId = NewType("KeyId", UUID)
InvitationId = NewType("InvitationId", UUID)
SshKeyId = NewType("SshKeyId", UUID)
EventId = NewType("EventId", UUID)
AuditId = NewType("AuditId", UUID)
DeadLetterId = NewType("DeadLetterId", UUID)
NodeId = NewType("NodeId", UUID)
TaskId = NewType("TaskId", UUID)
SkuId = NewType("SkuId", UUID)
SlotId = NewType("SlotId", UUID)
RunId = NewType("RunId", UUID)
AllocationId = NewType("AllocationId", UUID)
HoldId = NewType("HoldId", UUID)
OrphanId = NewType("OrphanId", UUID)
ArtifactId = NewType("ArtifactId", UUID)
TransactionId = NewType("TransactionId", UUID)
MoneyHoldId = NewType("MoneyHoldId", UUID)
AdjustmentId = NewType("AdjustmentId", UUID)
NotificationId = NewType("NotificationId", UUID)
EmailId = NewType("EmailId", UUID)
LinkId = NewType("LinkId", UUID)
PaymentId = NewType("PaymentId", UUID)
RefundId = NewType("RefundId", UUID)

_VERSION_7 = 7 << 76
_VARIANT = 2 << 62
_STEP = (1 << 32) - 1  # small enough that a million in a millisecond stay below the version and variant
_RANDOM_BITS = ~((0xF << 76) | (3 << 62)) & ((1 << 80) - 1)


_turn = threading.Lock()
_last = 0


def new_id() -> UUID:
    """A fresh UUIDv7: 48 bits of milliseconds, 74 random ones; in the millisecond of the one before, a little more."""
    global _last  # noqa: PLW0603 # the one memory ids have
    random = int.from_bytes(os.urandom(10), "big") & _RANDOM_BITS
    fresh = (clock.epoch_ms() << 80) | _VERSION_7 | _VARIANT | random
    with _turn:
        if fresh >> 80 == _last >> 80 and fresh <= _last:
            fresh = _last + 1 + (random & _STEP)
        _last = fresh
    return UUID(int=fresh)


def floor_id(at: datetime) -> UUID:
    """The smallest UUIDv7 born at `at`: the bound of a time range over ids."""
    return UUID(int=(int(at.timestamp() * 1000) << 80) | _VERSION_7 | _VARIANT)
