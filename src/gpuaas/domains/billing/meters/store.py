"""SQL of meters. The database's functions write; what they do is in 0013_meters."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from gpuaas.domains.billing.meters.models import Burn, Cause, Meter, MeterWanted, Passed, Running
from gpuaas.domains.billing.meters.rating import Span
from gpuaas.infra.postgres.tx import Tx, decode, decode_all
from gpuaas.kit import log
from gpuaas.kit.ids import OrgId, new_id

OPEN = "SELECT * FROM meter_open($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
PAUSE = "SELECT * FROM meter_pause($1, $2, $3, $4)"
PAUSE_LATER = "SELECT * FROM meter_pause_later($1, $2)"
RESUME = "SELECT * FROM meter_resume($1, $2, $3)"
CLOSE = "SELECT * FROM meter_close($1, $2, $3)"
SETTLE = "SELECT * FROM usage_settle($1, $2, $3)"
OF_SUBJECT = "SELECT m.*, clock_timestamp() AS now_at FROM meters m WHERE m.subject_id = $1"
COSTS = """
SELECT m.subject_id, u.seconds, meter_owed(m.micros_per_hour, u.seconds) AS micros, m.currency, m.closed_at,
       p.from_at AS paused_since, coalesce(p.reason, '') AS paused_reason,
       f.from_at AS fault_since, coalesce(f.reason, '') AS fault_reason
FROM meters m
CROSS JOIN LATERAL (SELECT coalesce(m.closed_at, greatest(clock_timestamp(), m.billed_until)) AS until_at) AS n
CROSS JOIN LATERAL (
    SELECT meter_seconds(m.opened_at, n.until_at, meter_lost(m.id, m.opened_at, n.until_at)) AS seconds) AS u
LEFT JOIN meter_pauses p ON p.meter_id = m.id AND p.until_at IS NULL AND m.closed_at IS NULL
LEFT JOIN meter_causes f ON f.meter_id = m.id AND f.cause = 'fault' AND f.until_at IS NULL AND m.closed_at IS NULL
WHERE m.subject_id = ANY($1)
"""
PAUSES = "SELECT from_at, until_at FROM meter_pauses WHERE meter_id = $1 ORDER BY from_at"
ACCRUE = """
SELECT * FROM usage_accrue($1, $2, $3, date_bin(make_interval(secs => $4), clock_timestamp(), 'epoch'), $5, $6)
"""
BURN = """
SELECT m.org_id, m.currency, count(*) AS meters,
       coalesce(sum(m.micros_per_hour) FILTER (WHERE m.closed_at IS NULL AND NOT EXISTS (
           SELECT FROM meter_pauses p WHERE p.meter_id = m.id AND p.until_at IS NULL)), 0)::bigint AS micros_per_hour,
       sum(meter_owed(m.micros_per_hour,
                      meter_seconds(m.opened_at, u.until_at, meter_lost(m.id, m.opened_at, u.until_at)))
           - m.billed_micros)::bigint AS unposted_micros
FROM meters m
CROSS JOIN LATERAL (SELECT coalesce(m.closed_at, greatest(clock_timestamp(), m.billed_until)) AS until_at) AS u
WHERE m.org_id = ANY($1) AND m.settled_at IS NULL GROUP BY m.org_id, m.currency ORDER BY m.org_id, m.currency
"""


async def put(tx: Tx, wanted: MeterWanted, at: datetime) -> Meter:
    row = await tx.row(
        OPEN,
        new_id(),
        wanted.org_id,
        wanted.project_id,
        wanted.subject_id,
        wanted.sku_id,
        wanted.gpus,
        wanted.price_id,
        wanted.micros_per_gpu_hour * wanted.gpus,
        wanted.currency,
        wanted.asked_by,
        wanted.asked_by_id,
        at,
    )
    assert row is not None  # noqa: S101 # it was there, or it is now
    return decode(Meter, row)


async def pause(tx: Tx, subject_id: UUID, at: datetime, reason: str, cause: Cause) -> Meter | None:
    return await _one(tx, PAUSE, subject_id, at, reason, cause)


async def pause_later(tx: Tx, subject_id: UUID, seconds: int) -> Meter | None:
    return await _one(tx, PAUSE_LATER, subject_id, seconds)


async def resume(tx: Tx, subject_id: UUID, at: datetime, cause: Cause) -> Meter | None:
    return await _one(tx, RESUME, subject_id, at, cause)


async def close(tx: Tx, subject_id: UUID, at: datetime, reason: str) -> Meter | None:
    return await _one(tx, CLOSE, subject_id, at, reason)


async def settle(tx: Tx, subject_id: UUID) -> Meter | None:
    return await _one(tx, SETTLE, subject_id, tx.actor_name, log.correlation_id.get())


async def of_subject(tx: Tx, subject_id: UUID) -> tuple[Meter, datetime] | None:
    """With the database's clock, by which it runs."""
    row = await tx.row(OF_SUBJECT, subject_id)
    if row is None:
        return None
    found = dict(row)
    now = found.pop("now_at")
    return Meter(**found), now


async def costs(tx: Tx, subjects: Sequence[UUID]) -> dict[UUID, Running]:
    return {found.subject_id: found for found in decode_all(Running, await tx.rows(COSTS, list(subjects)))}


async def pauses(tx: Tx, meter_id: UUID) -> list[Span]:
    return decode_all(Span, await tx.rows(PAUSES, meter_id))


async def accrue(tx: Tx, after: tuple[UUID, UUID], *, limit: int, window_seconds: int) -> Passed:
    correlation = log.correlation_id.get()
    row = await tx.row(ACCRUE, *after, limit, float(window_seconds), tx.actor_name, correlation)
    assert row is not None  # noqa: S101 # it always says how far it came
    return decode(Passed, row)


async def burn(tx: Tx, orgs: Sequence[OrgId]) -> list[Burn]:
    return decode_all(Burn, await tx.rows(BURN, list(orgs)))


async def _one(tx: Tx, sql: str, *args: object) -> Meter | None:
    row = await tx.row(sql, *args)
    return None if row is None else decode(Meter, row)
