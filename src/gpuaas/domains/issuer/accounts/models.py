"""Rows of accounts."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.domains.issuer.claims import Person


class Account(msgspec.Struct, frozen=True):
    id: UUID
    email: str
    email_verified: bool
    name: str
    password_hash: str
    password_version: int
    must_change: bool
    created_at: datetime
    password_changed_at: datetime
    last_login_at: datetime | None

    @property
    def person(self) -> Person:
        return Person(subject=str(self.id), email=self.email, email_verified=self.email_verified, name=self.name)
