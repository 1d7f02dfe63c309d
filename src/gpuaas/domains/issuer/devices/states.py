"""The life of a device code. Its deadline is its expiry: past it no move is possible and the row is pruned."""

from enum import StrEnum

from gpuaas.kit.life import Life, exits, terminal


class DeviceState(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    USED = "used"


S = DeviceState
LIFE = Life(
    {
        S.PENDING: exits(S.APPROVED, S.DENIED, rests="for the person who enters it, until it expires and is deleted"),
        S.APPROVED: exits(S.USED, S.DENIED, rests="for the device to fetch tokens, until it expires and is deleted"),
        S.DENIED: terminal,
        S.USED: terminal,
    },
    of="issuer_device_codes",
)
