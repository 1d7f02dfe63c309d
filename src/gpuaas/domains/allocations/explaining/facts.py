"""What an explanation is made of: read by the service, so that every sentence is a pure function of values."""

from datetime import datetime

import msgspec

from gpuaas.contracts.http.allocations import QueuePlace
from gpuaas.contracts.policy_keys import Value
from gpuaas.domains.allocations.models import Allocation, Shown, ShownGpu
from gpuaas.domains.allocations.money.models import Money
from gpuaas.domains.billing.ledger.models import Entry


class PolicyHere(msgspec.Struct, frozen=True):
    """What holds of a policy in the allocation's project, and where that comes from, as a sentence."""

    value: Value
    sentence: str


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    shown: Shown
    allocation: Allocation
    gpus: list[ShownGpu]
    """Those it holds or held."""
    place: QueuePlace | None
    """In the queue; None: it does not wait."""
    price_from: datetime | None
    """Since when the price it was made at held for its SKU; None: it cannot be told any more."""
    certificates: int
    policies: dict[str, PolicyHere]
    money: Money
    credits: list[Entry]
    """What was given back or credited for it, the newest first."""
    now: datetime
