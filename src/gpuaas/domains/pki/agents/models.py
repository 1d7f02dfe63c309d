"""How a certificate stands now."""

from datetime import datetime

import msgspec

from gpuaas.kit.ids import NodeId


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    fingerprint: bytes
    node_id: NodeId
    serial: str
    not_before: datetime
    not_after: datetime
    used: bool
    revoked: bool
    superseded_for: float | None
    """Seconds since a newer certificate of the node was shown."""
    authority_trusted: bool
