"""What is known of an allocation's money."""

from datetime import datetime
from uuid import UUID

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
    lasts_seconds: int | None
    """Without it."""

    @property
    def affordable(self) -> bool:
        """What costs something needs some money, even where nothing is set aside for it."""
        return self.micros_per_hour == 0 or (self.available_micros > 0 and self.hold_micros <= self.available_micros)


class Money(msgspec.Struct, frozen=True, kw_only=True):
    """Of one allocation, now."""

    cost_micros: int = 0
    usable_seconds: int = 0
    held_micros: int = 0
    charging: bool = False
    paused_since: datetime | None = None
    paused_reason: str = ""
    runway_seconds: int | None = None


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What a node of an allocation says it counted while nobody heard of it."""

    node_id: UUID
    usage: str
    """All it says now, as it was signed."""
    usage_signature: str
    before: int
    """Of this allocation, before it fell silent."""


NOTHING = Money()
