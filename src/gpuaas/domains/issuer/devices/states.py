"""The life of a device code. Its deadline is its expiry: past it no move is possible and the row is pruned."""

from enum import StrEnum


class DeviceState(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    USED = "used"


SOURCES: dict[DeviceState, tuple[DeviceState, ...]] = {
    DeviceState.APPROVED: (DeviceState.PENDING,),
    DeviceState.DENIED: (DeviceState.PENDING, DeviceState.APPROVED),
    DeviceState.USED: (DeviceState.APPROVED,),
}
