"""Rows of standings, and what they are decided by. Amounts are whole micro-units, instants the database's."""

from datetime import datetime

import msgspec

from gpuaas.contracts.http.standing import Rung
from gpuaas.kit.ids import OrgId


class Place(msgspec.Struct, frozen=True):
    """One ladder: of an organisation, in a currency."""

    org_id: OrgId
    currency: str


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """On which rung an organisation stands. Without a row it is good, since ever."""

    rung: Rung = Rung.GOOD
    since: datetime | None = None
    due_at: datetime | None = None
    """When the next rung follows, unless money comes."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """A standing as it was left, and the money as it is now."""

    org_id: OrgId
    currency: str
    rung: Rung
    since: datetime | None
    due_at: datetime | None
    counting_since: datetime | None
    told: int
    """How much of the countdown was told: 1 at half of it, 2 at a tenth left."""
    entered_micros: int
    """What could be spent when it came to this rung."""
    paused_until: datetime | None
    now: datetime
    balance_micros: int
    floor_micros: int
    unposted_micros: int
    burn_micros_per_hour: int
    open_micros_per_hour: int
    """With what stands still, too: what it costs once it runs again."""
    running: int
    """Meters that are open and have a price."""

    @property
    def place(self) -> Place:
        return Place(self.org_id, self.currency)

    @property
    def spendable_micros(self) -> int:
        """What is set aside counts: it is set aside for what runs."""
        return self.balance_micros - self.floor_micros - self.unposted_micros

    @property
    def paused(self) -> bool:
        return self.paused_until is not None and self.paused_until > self.now
