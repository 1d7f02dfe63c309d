"""Standings in the small world."""

from datetime import timedelta

from gpuaas.kit import clock
from tests.every.world import Setting


async def put_standing(s: Setting, *, state: str = "empty", currency: str = "USD") -> None:
    now = clock.now()
    await s.put(
        "standings",
        org_id=s.org_id,
        currency=currency,
        state=state,
        due_at=now + timedelta(minutes=15),
        counting_since=now,
    )
