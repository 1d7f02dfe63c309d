"""Rows of members, of an organisation or of a project."""

from datetime import datetime

import msgspec

from gpuaas.contracts.permissions import Role
from gpuaas.kit.ids import UserId


class Member(msgspec.Struct, frozen=True):
    id: UserId
    email: str
    name: str
    role: Role
    joined_at: datetime
