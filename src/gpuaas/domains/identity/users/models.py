"""Rows of users and of what they belong to."""

from datetime import datetime

import msgspec

from gpuaas.contracts.http.users import UserState
from gpuaas.contracts.permissions import PlatformRole
from gpuaas.kit.ids import UserId


class User(msgspec.Struct, frozen=True):
    id: UserId
    issuer: str
    subject: str
    email: str
    email_verified: bool
    name: str
    platform_roles: list[PlatformRole]
    state: UserState
    created_at: datetime
    last_login_at: datetime


class Profile(msgspec.Struct, frozen=True):
    """Who somebody is, as his issuer says it."""

    issuer: str
    subject: str
    email: str = ""
    email_verified: bool = False
    name: str = ""
