"""Logins and sessions on the wire."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.actor import ActorKind
from gpuaas.contracts.http.base import OneTime, Reason, Request, Response, ShownOnce
from gpuaas.contracts.permissions import PlatformRole

_VISIBLE = r"^[\x21-\x7e]+$(?!\n)"
Opaque = Annotated[str, msgspec.Meta(min_length=1, max_length=4096, pattern=_VISIBLE)]
State = Annotated[str, msgspec.Meta(min_length=16, max_length=200, pattern=_VISIBLE)]
Uri = Annotated[
    str,
    msgspec.Meta(
        min_length=8,
        max_length=500,
        pattern=r"^https?://[\x21-\x7e]+$(?!\n)",
        examples=["http://127.0.0.1:8931/callback"],
    ),
]
CredentialId = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=255,
        pattern=r"^[\x20-\x7e]+$(?!\n)",
        description="A token's jti, or the id of a service account's key.",
    ),
]


class AuthConfig(Response, frozen=True, kw_only=True):
    """What a program needs to know to log a person in at the issuer itself."""

    issuer: str
    """OpenID issuer; its endpoints are found by discovery."""
    cli_client_id: str
    """The public client for command lines: PKCE with a loopback redirect, and device code."""
    audience: str


class SessionView(Response, frozen=True, kw_only=True):
    """Who a credential speaks for."""

    kind: ActorKind
    id: UUID
    name: str
    email: str
    platform_roles: list[PlatformRole]
    credential_id: str
    expires_at: int
    """Seconds since 1970."""


class LoginStart(Request, frozen=True, kw_only=True):
    redirect_uri: Uri
    """Where the browser comes back to: below the public URL, or a loopback address of the same machine."""


class LoginStarted(ShownOnce, frozen=True, kw_only=True):
    authorization_url: OneTime
    """Send the browser here."""
    state: OneTime
    """Compare with the state the browser brings back, then send both to `login_finish`."""
    expires_at: datetime


class LoginFinish(Request, frozen=True, kw_only=True):
    authorization_code: Opaque
    state: State


class SessionRefresh(Request, frozen=True, kw_only=True):
    refresh_token: Opaque


class SessionTokens(ShownOnce, frozen=True, kw_only=True):
    access_token: OneTime
    refresh_token: OneTime
    """Null also when the issuer gives none."""
    token_type: str = "Bearer"  # noqa: S105 # the name of a scheme, not a secret
    expires_in_seconds: int


class SessionEnd(Request, frozen=True, kw_only=True):
    refresh_token: Opaque | None = None


class SessionEnded(Response, frozen=True, kw_only=True):
    access_token_revoked: bool = True
    refresh_token_revoked: bool
    """False when none was given, or the issuer could not be reached: it then lives until it expires."""


class CredentialRevoke(Request, frozen=True, kw_only=True):
    credential_id: CredentialId
    reason: Reason
    expires_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """When the credential would have ended by itself; a year from now if not known."""


class RevokedCredential(Response, frozen=True, kw_only=True):
    credential_id: str
    reason: str
    revoked_at: datetime
    expires_at: datetime


class IssuerKeys(Response, frozen=True, kw_only=True):
    issuer: str
    key_ids: list[str]


class IssuerKeysRefreshed(Response, frozen=True, kw_only=True):
    issuers: list[IssuerKeys]
    """Those that answered; the others keep their last good keys."""
