"""Logins and keys of the built-in issuer on the wire. (Its protocol endpoints speak the RFCs' shapes.)"""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from gpuaas.contracts.http.base import Email, OneTime, PageQuery, Reason, Request, Response, ShownOnce, Title

Password = Annotated[str, msgspec.Meta(min_length=1, max_length=200, description="Any characters.")]
NewPassword = Annotated[
    str, msgspec.Meta(min_length=10, max_length=200, description="Any characters; what is guessed first is refused.")
]


class PasswordChange(Request, frozen=True, kw_only=True):
    current_password: Password
    new_password: NewPassword


class IssuerAccountCreate(Request, frozen=True, kw_only=True):
    email: Email
    name: Title


class IssuerAccountQuery(PageQuery, frozen=True, kw_only=True):
    email: Email | None = None
    """Only the login of this address."""


class IssuerAccountView(Response, frozen=True, kw_only=True):
    id: UUID
    """Also the subject of its tokens."""
    email: str
    name: str
    must_change_password: bool
    created_at: datetime
    password_changed_at: datetime
    last_login_at: datetime | None


class IssuerAccountOpened(ShownOnce, frozen=True, kw_only=True):
    """A login with a password for one use: its owner chooses another at the first login."""

    id: UUID
    email: str
    temporary_password: OneTime


class IssuerAccountPasswordReset(Request, frozen=True, kw_only=True):
    reason: Reason


class IssuerKeyRotate(Request, frozen=True, kw_only=True):
    reason: Reason
    distrust_old: bool = False
    """True after a compromise: tokens signed with the old keys stop counting instead of living out their time."""


class IssuerKeyView(Response, frozen=True, kw_only=True):
    key_id: str
    algorithm: str
    signs_from: datetime
    signs_until: datetime | None
    valid_until: datetime | None


class IssuerKeyList(Response, frozen=True, kw_only=True):
    keys: list[IssuerKeyView]
    """Newest first; those past `valid_until` no longer count."""
