"""SSH public keys on the wire. No private key is ever generated or stored."""

from datetime import datetime
from typing import Annotated

import msgspec

from gpuaas.contracts.http.base import Request, Response, Title
from gpuaas.kit.ids import SshKeyId

PublicKey = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=8192,
        description="One line, as in a .pub file: type, key, comment. No options.",
        examples=["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJl3dIeudNqd0DPMRD6OIh65tjkxFNOtwGcWB2gCgPhk ada@laptop"],
    ),
]


class SshKeyAdd(Request, frozen=True, kw_only=True):
    public_key: PublicKey
    name: Title | None = None
    """What you call it; the key's comment, or its fingerprint, if absent."""


class SshKeyView(Response, frozen=True, kw_only=True):
    id: SshKeyId
    name: str
    algorithm: str
    public_key: str
    fingerprint: str
    """As `ssh-keygen -l` prints it."""
    created_at: datetime
