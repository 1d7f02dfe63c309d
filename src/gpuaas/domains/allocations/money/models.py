"""What is known of an allocation's money."""

from datetime import datetime

import msgspec


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What something would take: its price, what is set aside for it, what there is."""

    currency: str
    micros_per_hour: int
    hold_minutes: int
    hold_micros: int
    available_micros: int
    runway_seconds: int | None
    """With it running, too."""


class Money(msgspec.Struct, frozen=True, kw_only=True):
    """Of one allocation, now."""

    cost_micros: int = 0
    usable_seconds: int = 0
    held_micros: int = 0
    charging: bool = False
    paused_since: datetime | None = None
    paused_reason: str = ""
    runway_seconds: int | None = None


NOTHING = Money()
