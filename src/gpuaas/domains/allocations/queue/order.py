"""Who comes next: by priority, then by fair share, then by age. Pure.

Fair share: less comes first of what its organisation has had of the SKU lately, and is about to have by its requests
that are further ahead. So organisations take turns, however many requests one of them has sent."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from gpuaas.domains.allocations.queue.models import Waiting

TURN_SECONDS = 3_600
"""For how long each GPU a request ahead asks for counts as had."""


def in_order(waiting: Iterable[Waiting]) -> list[Waiting]:
    ahead: dict[UUID, float] = defaultdict(float)
    shares: dict[UUID, float] = {}
    for entry in sorted(waiting, key=lambda one: (-one.priority, one.waiting_since, one.id)):
        shares[entry.id] = entry.used_gpu_seconds + ahead[entry.org_id]
        ahead[entry.org_id] += entry.gpus * TURN_SECONDS
    return sorted(waiting, key=lambda one: (-one.priority, shares[one.id], one.waiting_since, one.id))


def out_of_patience(entry: Waiting, *, now: datetime, patience: timedelta) -> bool:
    """It has been passed for long enough: nobody behind it is served before it."""
    return now - entry.waiting_since >= patience
