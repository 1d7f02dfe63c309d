"""Rows of SSH public keys."""

from datetime import datetime

import msgspec

from gpuaas.kit.ids import SshKeyId, UserId


class SshKey(msgspec.Struct, frozen=True):
    id: SshKeyId
    user_id: UserId
    name: str
    algorithm: str
    public_key: str
    fingerprint: str
    created_at: datetime
