"""Standings and budgets in the small world."""

from datetime import timedelta
from uuid import UUID

from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
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


async def put_budget(s: Setting) -> UUID:
    """With its first mark of this month; of a currency that no other of the project has."""
    budget_id, now = new_id(), clock.now()
    currency = "".join(chr(ord("A") + byte % 26) for byte in budget_id.bytes[-3:])
    await s.put(
        "budgets",
        id=budget_id,
        org_id=s.org_id,
        project_id=s.project_id,
        currency=currency,
        soft_micros=10,
        hard_micros=20,
        set_by="somebody",
    )
    await s.put(
        "budget_marks",
        org_id=s.org_id,
        project_id=s.project_id,
        currency=currency,
        month=now.date().replace(day=1),
        of_limit="soft",
        percent=50,
        limit_micros=10,
        spent_micros=5,
        reached_at=now,
    )
    return budget_id
