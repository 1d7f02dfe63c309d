"""Rows of the audit log, of its chain, and what a check of it found."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.domains.audit.chain import SealedRow


class SealedEntry(SealedRow, frozen=True):
    """An audit row with its link in the chain, when it has one already."""

    seq: int | None
    version: int | None
    prev_hash: bytes | None
    hash: bytes | None


class Head(msgspec.Struct, frozen=True):
    seq: int
    hash: bytes


class Checkpoint(msgspec.Struct, frozen=True):
    seq: int
    hash: bytes
    at: datetime
    key_id: str
    signature: bytes


class Wanted(msgspec.Struct, frozen=True):
    """Which entries are asked for."""

    org_id: UUID | None = None
    actor_id: UUID | None = None
    action: str | None = None
    subject_id: UUID | None = None
    project_id: UUID | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None


class Flaw(msgspec.Struct, frozen=True):
    """Something in the audit log that does not hold, and the row or link it was found at."""

    subject: str
    problem: str


class ChainReport(msgspec.Struct, frozen=True):
    links: int
    checkpoints: int
    flaw_count: int
    flaws: list[Flaw]
    """The first of them."""


class SealState(msgspec.Struct, frozen=True):
    """How far sealing has come."""

    unsealed: int
    oldest_unsealed_seconds: float
    sealed_through: int
    checkpoint_through: int
    checkpoint_age_seconds: float | None
