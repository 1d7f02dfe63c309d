"""Rows of heartbeats."""

from uuid import UUID

import msgspec

from gpuaas.contracts.http.nodes import Liveness


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """A heartbeat that was taken in, and what is wanted of its node."""

    node_id: UUID
    generation: int
    cordoned: bool
    drained: bool


class Woken(msgspec.Struct, frozen=True, kw_only=True):
    """A node that was silent, or has started anew, as it was before."""

    node_id: UUID
    before: Liveness
    rebooted: bool
