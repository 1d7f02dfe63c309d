"""SQL of lifetimes. Every statement that changes an allocation names what it must be for that: whoever renewed, used or
released it meanwhile comes first."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.domains.allocations.lifetime.condition import HeldGpu
from gpuaas.domains.allocations.lifetime.models import Measured, Place, Whole
from gpuaas.domains.allocations.models import Allocation, Hold
from gpuaas.infra.postgres.tx import Row, Tx, decode, decode_all
from gpuaas.kit.ids import AllocationId, ProjectId

PLACES = "SELECT DISTINCT org_id, project_id FROM allocations WHERE state IN ('active', 'stopped')"
# the end of the lease ------------------------------------------------------------------------------------------------
EXPIRING = """
UPDATE allocations a SET expiry_warned_at = now()
FROM unnest($1::uuid[], $2::int[]) AS p (project_id, minutes)
WHERE a.state IN ('active', 'stopped') AND a.project_id = p.project_id AND a.expiry_warned_at IS NULL
  AND a.expires_at > now() AND a.expires_at <= now() + make_interval(mins => p.minutes)
RETURNING a.*
"""
EXPIRED = """
SELECT id FROM allocations WHERE state IN ('active', 'stopped') AND expires_at <= now() ORDER BY expires_at LIMIT $1
"""
LOCK_EXPIRED = """
SELECT * FROM allocations WHERE id = $1 AND state IN ('active', 'stopped') AND expires_at <= now() FOR NO KEY UPDATE
"""


# use -----------------------------------------------------------------------------------------------------------------
def _sql(text: str) -> str:
    return text.replace("METRIC", "('gpu.' || h.serial || '.utilisation_percent')")


MEASURED = _sql("""
SELECT a.id, a.org_id, a.project_id, a.idle_since, a.reclaim_at, now() AS now,
    bool_and(coalesce(m.complete, false)) AS known, coalesce(max(m.highest), 0)::float8 AS percent
FROM allocations a
JOIN slot_holds h ON h.allocation_id = a.id AND h.ended_at IS NULL
CROSS JOIN LATERAL (
    SELECT bool_and(m.values ? METRIC) AS complete, max((m.values ->> METRIC)::float8) AS highest
    FROM node_metrics m WHERE m.node_id = h.node_id AND m.at > now() - make_interval(secs => $2)) AS m
WHERE a.state = 'active' AND a.project_id = ANY($1)
GROUP BY a.id
""")
# Those the policy left alone meanwhile, which were noted before.
FORGET_OTHERS = """
SELECT a.id, a.org_id, a.project_id, a.idle_since, a.reclaim_at, now() AS now, false AS known, 0::float8 AS percent
FROM allocations a WHERE a.state = 'active' AND NOT a.project_id = ANY($1)
  AND (a.idle_since IS NOT NULL OR a.reclaim_at IS NOT NULL)
"""
# From then on until now: of each node samples without a gap, in each of them every GPU, and none of them used.
QUIET = _sql("""
SELECT bool_and(quiet) FROM (
    SELECT n.node_id, coalesce(bool_and(m.idle AND m.at - m.before <= $4), false) AND now() - max(m.at) <= $4 AS quiet
    FROM (SELECT DISTINCT node_id FROM slot_holds WHERE allocation_id = $1 AND ended_at IS NULL) AS n
    LEFT JOIN LATERAL (
        SELECT s.at, lag(s.at, 1, $2) OVER (ORDER BY s.at) AS before,
               (SELECT bool_and(coalesce((s.values ->> METRIC)::float8 <= $3, false)) FROM slot_holds h
                WHERE h.allocation_id = $1 AND h.node_id = n.node_id AND h.ended_at IS NULL) AS idle
        FROM node_metrics s WHERE s.node_id = n.node_id AND s.at >= $2) AS m ON true
    GROUP BY n.node_id) AS nodes
""")
NOTE_IDLE = "UPDATE allocations SET idle_since = now() WHERE id = ANY($1) AND state = 'active' AND idle_since IS NULL"
FORGET_IDLE = """
UPDATE allocations SET idle_since = NULL, idle_warned_at = NULL, reclaim_at = NULL
WHERE id = $1 AND state = 'active' AND idle_since IS NOT DISTINCT FROM $2 RETURNING *
"""
WARN_IDLE = """
UPDATE allocations SET idle_warned_at = now(), reclaim_at = now() + $3::interval
WHERE id = $1 AND state = 'active' AND idle_since = $2 AND reclaim_at IS NULL RETURNING *
"""
LOCK_IDLE = """
SELECT * FROM allocations WHERE id = $1 AND state = 'active' AND idle_since = $2 AND reclaim_at <= now()
FOR NO KEY UPDATE
"""
# the condition of what is held ---------------------------------------------------------------------------------------
HELD = _sql("""
SELECT a.id, a.org_id, a.project_id, a.state, a.degraded_since IS NOT NULL AS degraded, a.degraded_reason,
    jsonb_agg(jsonb_build_object('node_name', n.name, 'node_lost', coalesce(b.liveness = 'lost', false),
        'serial', h.serial, 'present', s.present, 'quarantine', coalesce(q.reason, ''), 'node_seen_at', b.seen_at,
        'seen_at', CASE WHEN NOT s.present THEN greatest(s.last_seen_at, (
            SELECT max(m.at) FROM node_metrics m WHERE m.node_id = h.node_id AND m.values ? METRIC AND m.at <= now()))
            END,
        'fault_id', CASE WHEN q.strike THEN q.id END,
        'fault_at', CASE WHEN q.strike THEN least(q.since, (q.evidence ->> 'at')::timestamptz) END)) AS held
FROM allocations a
JOIN slot_holds h ON h.allocation_id = a.id AND h.ended_at IS NULL
JOIN slots s ON s.id = h.slot_id
JOIN nodes n ON n.id = h.node_id
LEFT JOIN node_heartbeats b ON b.node_id = n.id
LEFT JOIN slot_quarantines q ON q.slot_id = s.id AND q.ended_at IS NULL
WHERE a.state IN ('active', 'stopping', 'stopped', 'starting') AND a.id > $2 AND ($1::uuid IS NULL OR EXISTS (
    SELECT FROM slot_holds x WHERE x.allocation_id = a.id AND x.node_id = $1 AND x.ended_at IS NULL))
GROUP BY a.id ORDER BY a.id LIMIT $3
""")
# All at once and in order, before anything of theirs is changed: whoever holds one of them takes the ledger after it.
LOCK_ALL = "SELECT id FROM allocations WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE"
DEGRADE = """
UPDATE allocations SET degraded_since = now(), degraded_reason = $2
WHERE id = $1 AND state IN ('active', 'stopping', 'stopped', 'starting')
  AND degraded_since IS NULL RETURNING *
"""
DEGRADED_OTHERWISE = """
UPDATE allocations SET degraded_reason = $2
WHERE id = $1 AND state IN ('active', 'stopping', 'stopped', 'starting')
  AND degraded_since IS NOT NULL AND degraded_reason <> $2 RETURNING *
"""
RESTORE = """
UPDATE allocations SET degraded_since = NULL, degraded_reason = ''
WHERE id = $1 AND state IN ('active', 'stopping', 'stopped', 'starting')
  AND degraded_since IS NOT NULL RETURNING *
"""
# Could not be proven gone, and a node of it has come back since, or was removed; all others are there. Once for each.
BACK = """
SELECT a.id FROM allocations a
JOIN slot_holds h ON h.allocation_id = a.id AND h.ended_at IS NULL
JOIN nodes n ON n.id = h.node_id
LEFT JOIN node_heartbeats b ON b.node_id = h.node_id
WHERE a.state = 'release_failed' AND ($1::uuid IS NULL OR EXISTS (
    SELECT FROM slot_holds x WHERE x.allocation_id = a.id AND x.node_id = $1 AND x.ended_at IS NULL))
GROUP BY a.id, a.state_since
HAVING bool_and(n.state = 'removed' OR (n.state = 'active' AND coalesce(b.liveness, 'new') = 'online'))
   AND max(CASE n.state WHEN 'removed' THEN n.state_since ELSE b.liveness_since END) > a.state_since
ORDER BY a.id LIMIT $2
"""
# deadlines -----------------------------------------------------------------------------------------------------------
OVERDUE = "SELECT id FROM allocations WHERE due_at <= now() AND state = ANY($1) AND id > $2 ORDER BY id LIMIT $3"
LOCK_OVERDUE = "SELECT * FROM allocations WHERE id = $1 AND due_at <= now() FOR NO KEY UPDATE"
OVERDUE_HOLDS = """
SELECT * FROM slot_holds WHERE state = 'cleaning' AND ended_at IS NULL AND due_at <= now()
ORDER BY id LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED
"""


async def places(tx: Tx) -> list[Place]:
    return decode_all(Place, await tx.rows(PLACES))


async def expiring(tx: Tx, minutes: Mapping[ProjectId, int]) -> list[Allocation]:
    """Those whose people are to be warned now: once for each lease."""
    return decode_all(Allocation, await tx.rows(EXPIRING, list(minutes), list(minutes.values())))


async def expired(tx: Tx, *, limit: int) -> list[AllocationId]:
    return _ids(await tx.rows(EXPIRED, limit))


async def lock_expired(tx: Tx, allocation_id: AllocationId) -> Allocation | None:
    return _maybe(await tx.row(LOCK_EXPIRED, allocation_id))


async def measured(tx: Tx, projects: Sequence[ProjectId], *, seconds: float) -> list[Measured]:
    """Of these projects all, with what was measured in the last seconds; of others those that were noted as idle."""
    rows = await tx.rows(MEASURED, list(projects), seconds) + await tx.rows(FORGET_OTHERS, list(projects))
    return decode_all(Measured, rows)


async def quiet(tx: Tx, allocation_id: AllocationId, since: datetime, *, percent: int, gap: timedelta) -> bool:
    return bool(await tx.value(QUIET, allocation_id, since, percent, gap))


async def note_idle(tx: Tx, ids: Sequence[AllocationId]) -> None:
    await tx.run(NOTE_IDLE, list(ids))


async def forget_idle(tx: Tx, allocation_id: AllocationId, since: datetime | None) -> Allocation | None:
    return _maybe(await tx.row(FORGET_IDLE, allocation_id, since))


async def warn_idle(tx: Tx, allocation_id: AllocationId, since: datetime, grace: timedelta) -> Allocation | None:
    return _maybe(await tx.row(WARN_IDLE, allocation_id, since, grace))


async def lock_idle(tx: Tx, allocation_id: AllocationId, since: datetime) -> Allocation | None:
    return _maybe(await tx.row(LOCK_IDLE, allocation_id, since))


async def whole(tx: Tx, *, node_id: UUID | None, after: UUID, limit: int) -> list[Whole]:
    """Those their tenants have, with all they hold: those that hold something on the node, or all."""
    return [
        Whole(
            id=row["id"],
            org_id=row["org_id"],
            project_id=row["project_id"],
            state=AllocationState(row["state"]),
            degraded=row["degraded"],
            degraded_reason=row["degraded_reason"],
            held=_Held.decode(row["held"]),
        )
        for row in await tx.rows(HELD, node_id, after, limit)
    ]


async def lock_all(tx: Tx, ids: Sequence[AllocationId]) -> None:
    await tx.rows(LOCK_ALL, list(ids))


async def degrade(tx: Tx, allocation_id: AllocationId, reason: str) -> Allocation | None:
    return _maybe(await tx.row(DEGRADE, allocation_id, reason))


async def degraded_otherwise(tx: Tx, allocation_id: AllocationId, reason: str) -> Allocation | None:
    """It was degraded, and now for another reason."""
    return _maybe(await tx.row(DEGRADED_OTHERWISE, allocation_id, reason))


async def restore(tx: Tx, allocation_id: AllocationId) -> Allocation | None:
    return _maybe(await tx.row(RESTORE, allocation_id))


async def back(tx: Tx, *, node_id: UUID | None, limit: int) -> list[AllocationId]:
    return _ids(await tx.rows(BACK, node_id, limit))


async def overdue(tx: Tx, states: Sequence[AllocationState], *, after: UUID, limit: int) -> list[AllocationId]:
    return _ids(await tx.rows(OVERDUE, list(states), after, limit))


async def lock_overdue(tx: Tx, allocation_id: AllocationId) -> Allocation | None:
    return _maybe(await tx.row(LOCK_OVERDUE, allocation_id))


async def holds_overdue(tx: Tx, *, limit: int) -> list[Hold]:
    """Those that were not cleaned in time, locked."""
    return decode_all(Hold, await tx.rows(OVERDUE_HOLDS, limit))


_Held = msgspec.json.Decoder(list[HeldGpu])


def _ids(rows: list[Row]) -> list[AllocationId]:
    return [row["id"] for row in rows]


def _maybe(row: Row | None) -> Allocation | None:
    return None if row is None else decode(Allocation, row)
