"""Rows of logins under way and of the deny-list."""

from datetime import datetime

import msgspec


class LoginState(msgspec.Struct, frozen=True):
    code_verifier: bytes
    """Sealed with the master key."""
    nonce: str
    redirect_uri: str


class Revocation(msgspec.Struct, frozen=True):
    credential_id: str
    reason: str
    revoked_at: datetime
    expires_at: datetime
