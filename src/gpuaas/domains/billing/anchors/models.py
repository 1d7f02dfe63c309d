"""What the audit log keeps of the ledger."""

from uuid import UUID

import msgspec


class Head(msgspec.Struct, frozen=True, array_like=True):
    """The last entry of an account."""

    account_id: UUID
    transaction_id: UUID
    hash: str
    """In hexadecimal."""


class Anchor(msgspec.Struct, frozen=True):
    """The details of the audit entry: one head for each of the platform's accounts, in the order of their ids."""

    heads: list[Head]


class Flaw(msgspec.Struct, frozen=True):
    subject: str
    problem: str
