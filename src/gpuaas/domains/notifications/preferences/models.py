"""Rows of preferences."""

import msgspec

from gpuaas.contracts.http.notifications import EmailWhen
from gpuaas.kit.ids import UserId


class Preference(msgspec.Struct, frozen=True):
    user_id: UserId
    kind: str
    email: EmailWhen
