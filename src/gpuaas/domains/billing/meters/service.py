"""The verbs of meters: open, pause, resume, close, settle; what something cost so far; the pass that charges for all.

Always holds: a subject has one meter, at the price it began with; each verb may come twice, and late, and changes
nothing then; whatever passes ran, died or ran twice, what was posted of a meter is what it owes for the seconds it was
usable. Instants are the database's."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from gpuaas.domains.billing.meters import store
from gpuaas.domains.billing.meters.models import Burn, Cause, Cost, Meter, MeterWanted
from gpuaas.domains.billing.meters.rating import counts_until, owed_micros, usable_seconds
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import NIL, PLATFORM, Sight, Tx
from gpuaas.kit.ids import OrgId

BATCH = 10_000
MAX_BATCHES = 1_000
BY = "system:billing.accrue"

costs = store.costs


async def meter_open(tx: Tx, wanted: MeterWanted, *, at: datetime) -> Meter:
    """From the instant at which it was proven usable. A subject that has a meter keeps it as it is."""
    return await store.put(tx, wanted, at)


async def meter_pause(
    tx: Tx, subject_id: UUID, *, at: datetime, reason: str, cause: Cause = Cause.FAULT
) -> Meter | None:
    """It is not usable since then. An instant before a known pause for this cause was that one's true beginning.
    None: no meter."""
    return await store.pause(tx, subject_id, at, reason, cause)


async def meter_pause_later(tx: Tx, subject_id: UUID, *, seconds: int) -> Meter | None:
    """It was usable for so many seconds more than was known when a fault paused it; never beyond now."""
    return await store.pause_later(tx, subject_id, seconds)


async def meter_resume(tx: Tx, subject_id: UUID, *, at: datetime, cause: Cause = Cause.FAULT) -> Meter | None:
    """That cause has ended then. It is charged again if no other lasts."""
    return await store.resume(tx, subject_id, at, cause)


async def meter_close(tx: Tx, subject_id: UUID, *, at: datetime, reason: str) -> Meter | None:
    """Its end: when its release was asked for, or when it last gave a sign of life. The earliest told holds; what was
    charged beyond it goes back with the next pass."""
    return await store.close(tx, subject_id, at, reason)


async def meter_settle(tx: Tx, subject_id: UUID) -> Meter | None:
    """Post now what this one owes and was not posted."""
    return await store.settle(tx, subject_id)


async def meter_get(tx: Tx, subject_id: UUID) -> Meter | None:
    found = await store.of_subject(tx, subject_id)
    return None if found is None else found[0]


async def meter_cost(tx: Tx, subject_id: UUID) -> Cost | None:
    """What it has cost so far. None: nothing was proven usable yet, so it costs nothing."""
    found = await store.of_subject(tx, subject_id)
    if found is None:
        return None
    meter, now = found
    pauses = await store.pauses(tx, meter.id)
    seconds = usable_seconds(meter.opened_at, counts_until(now, meter.closed_at, meter.billed_until), pauses)
    return Cost(
        seconds=seconds,
        micros=owed_micros(meter.micros_per_hour, seconds),
        posted_micros=meter.billed_micros,
        micros_per_hour=meter.micros_per_hour,
        currency=meter.currency,
        paused=meter.closed_at is None and any(pause.until_at is None for pause in pauses),
        opened_at=meter.opened_at,
        closed_at=meter.closed_at,
    )


async def burn(tx: Tx, org_id: OrgId) -> list[Burn]:
    """What the organisation's meters cost, by currency."""
    return await store.burn(tx, [org_id])


async def burn_of(tx: Tx, orgs: Sequence[OrgId]) -> list[Burn]:
    """The same of several."""
    return await store.burn(tx, orgs)


async def accrue(db: Database, *, window_seconds: int, batch: int = BATCH) -> int:
    """Charge for everything that was not charged in this window, and for what has ended. How many rows were posted.

    Each batch is a transaction of its own: what dies leaves whole batches behind, and the next pass does the rest."""
    after, posted = (NIL, NIL), 0
    for _ in range(MAX_BATCHES):
        async with db.transaction(Sight(PLATFORM), BY) as tx:
            passed = await store.accrue(tx, after, limit=batch, window_seconds=window_seconds)
        posted += passed.posted
        if passed.last_org is None or passed.last_meter is None:
            break
        after = (passed.last_org, passed.last_meter)
    return posted
