"""Rows of device codes."""

from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.domains.issuer.devices.states import DeviceState


class DeviceCode(msgspec.Struct, frozen=True):
    user_code: str
    client_id: str
    scopes: list[str]
    requested_from: str
    state: DeviceState
    interval_seconds: int
    expired: bool
    account_id: UUID | None
    session_id: UUID | None
    auth_time: datetime | None
    family_id: UUID | None


class DeviceAuthorization(msgspec.Struct, frozen=True):
    """What the device gets (RFC 8628, 3.2)."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    interval: int
