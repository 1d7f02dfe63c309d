"""Rows of members, of an organisation or of a project."""

from datetime import datetime

import msgspec

from gpuaas.contracts.permissions import Role
from gpuaas.kit.ids import UserId


class Recipient(msgspec.Struct, frozen=True):
    """Somebody of an organisation who is to be told something."""

    id: UserId
    email: str
    email_verified: bool
    name: str
    seen: bool
    """He asked for something within the minutes that were named."""


class Member(msgspec.Struct, frozen=True):
    id: UserId
    email: str
    name: str
    role: Role
    joined_at: datetime
