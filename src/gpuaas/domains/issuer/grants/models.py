"""Rows of grants, and what the token endpoint answers."""

from datetime import datetime
from typing import NewType
from uuid import UUID

import msgspec

FamilyId = NewType("FamilyId", UUID)


class Code(msgspec.Struct, frozen=True):
    client_id: str
    redirect_uri: str
    account_id: UUID
    session_id: UUID
    scopes: list[str]
    nonce: str | None
    code_challenge: str
    auth_time: datetime
    used_at: datetime | None
    family_id: UUID | None


class Family(msgspec.Struct, frozen=True):
    """One login of one client. `sid` names the browser's session, or the family where there was no browser."""

    id: UUID
    account_id: UUID
    client_id: str
    session_id: UUID | None
    scopes: list[str]
    auth_time: datetime
    expires_at: datetime

    @property
    def sid(self) -> str:
        return str(self.session_id or self.id)


class RefreshToken(msgspec.Struct, frozen=True):
    family_id: UUID
    client_id: str
    scopes: list[str]
    just_used: bool
    successor_used: bool


class Tokens(msgspec.Struct, frozen=True):
    """The token endpoint's answer (RFC 6749, 5.1)."""

    access_token: str
    expires_in: int
    token_type: str = "Bearer"  # noqa: S105 # the name of a scheme, not a secret
    scope: str | msgspec.UnsetType = msgspec.UNSET
    refresh_token: str | msgspec.UnsetType = msgspec.UNSET
    id_token: str | msgspec.UnsetType = msgspec.UNSET
