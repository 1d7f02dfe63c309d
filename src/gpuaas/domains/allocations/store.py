"""SQL of allocations and of what they hold.

Always holds: one statement writes a state, and names the states it may come from; a slot's hold ends once."""

from collections.abc import Sequence
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.allocations import AllocationState
from gpuaas.domains.allocations.models import (
    Allocation,
    Hold,
    NewAllocation,
    Proof,
    Shown,
    ShownGpu,
    Wanted,
)
from gpuaas.domains.allocations.states import HOLD_LIFE, HOLDS, LIFE, LIVE, HoldState
from gpuaas.infra.postgres.tx import Row, Tx, conflicts, decode, decode_all
from gpuaas.kit.errors import Conflict, Missing
from gpuaas.kit.ids import AllocationId, HoldId, new_id

_NAMES = {"allocations_one_name": Code.ALLOCATION_NAME_TAKEN}
# The lock makes a deletion of the project wait for us, and us see it deleted if it came first.
INSERT = """
INSERT INTO allocations (id, org_id, project_id, name, sku_id, gpu_count, node_count, isolation, price_id, tags,
                         requested_by, requested_by_id, ssh_keys, lease_seconds, state, due_at, correlation_id)
SELECT $1, $2, p.id, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 'requested',
    now() + make_interval(secs => $15), $16
FROM projects p WHERE p.id = $3 AND p.deleted_at IS NULL FOR SHARE
RETURNING *
"""
GET = "SELECT * FROM allocations WHERE id = $1"
LOCK = "SELECT * FROM allocations WHERE id = $1 FOR NO KEY UPDATE"
# The one statement that writes a state.
MOVE = """
UPDATE allocations SET state = $2, version = version + 1, state_since = now(),
    due_at = now() + make_interval(secs => $4::float8),
    ended_at = CASE WHEN $2 IN ('released', 'failed') THEN now() END,
    connection_sealed = CASE WHEN $2 IN ('released', 'failed') THEN NULL ELSE connection_sealed END
WHERE id = $1 AND state = ANY($3) RETURNING *
"""
PLACED = "UPDATE allocations SET placement = $2 WHERE id = $1 RETURNING *"
ACTIVE = """
UPDATE allocations SET active_at = now(), expires_at = now() + make_interval(secs => least(lease_seconds, $2)),
    ends_at = now() + make_interval(secs => $2)
WHERE id = $1 RETURNING *
"""
RENEW = """
UPDATE allocations SET expires_at = least(now() + make_interval(secs => $2), ends_at), expiry_warned_at = NULL,
    idle_since = NULL, idle_warned_at = NULL, reclaim_at = NULL, version = version + 1,
    due_at = CASE WHEN state = 'stopped' AND stop_due_at IS NULL
                  THEN least(now() + make_interval(secs => $2), ends_at) ELSE due_at END
WHERE id = $1 AND state IN ('active', 'stopped') RETURNING *
"""
ASK_RELEASE = """
UPDATE allocations SET release_requested_at = coalesce(release_requested_at, now()), release_reason = $2,
    released_by = $3, forced = $4, reclaim_at = NULL
WHERE id = $1 RETURNING *
"""
COUNT_FORCE = """
UPDATE allocations SET force_attempts = force_attempts + 1, forced = true,
    force_after = now() + make_interval(secs => $2 * power(2, least(force_attempts, 20)))
WHERE id = $1 AND state = 'release_failed' AND force_attempts < $3 AND (force_after IS NULL OR force_after <= now())
RETURNING *
"""
FAILED = "UPDATE allocations SET failure_code = $2, failure = $3 WHERE id = $1 RETURNING *"
CONNECTION = "UPDATE allocations SET connection_sealed = $2 WHERE id = $1"
SEALED_BY_OTHERS = """
SELECT id, org_id, connection_sealed FROM allocations
WHERE connection_sealed IS NOT NULL AND substring(connection_sealed FOR 16) <> $1 AND id > $2 ORDER BY id LIMIT $3
"""
RESEAL = "UPDATE allocations SET connection_sealed = $3 WHERE id = $1 AND connection_sealed = $2"
_SHOWN = """
SELECT a.id, a.org_id, a.project_id, a.name, a.sku_id, k.name AS sku_name, k.region, k.gpu_model, a.gpu_count,
    a.node_count, a.isolation, p.currency, p.micros_per_gpu_hour, a.tags, a.requested_by, a.state, a.state_since,
    a.due_at, a.degraded_since, a.degraded_reason, a.created_at, a.active_at, a.expires_at, a.ends_at, a.reclaim_at,
    a.release_requested_at, a.released_by, a.release_reason, a.ended_at, a.failure_code, a.failure,
    a.stop_reason, a.stopped_by, a.stop_unpaid, a.version
FROM allocations a JOIN skus k ON k.id = a.sku_id JOIN sku_prices p ON p.id = a.price_id
"""
SHOW = f"{_SHOWN} WHERE a.id = $1"
LIST = f"""
{_SHOWN}
WHERE a.project_id = $1 AND a.id < $2 AND ($3::text IS NULL OR a.state = $3) AND (NOT $4 OR a.state = ANY($5))
  AND ($6::uuid IS NULL OR a.sku_id = $6) AND ($7::text IS NULL OR $7 = ANY(a.tags))
ORDER BY a.id DESC LIMIT $8
"""
LIST_ALL = f"""
{_SHOWN}
WHERE a.id < $1 AND ($2::text IS NULL OR a.state = $2) AND (NOT $3 OR a.state = ANY($4))
  AND ($5::uuid IS NULL OR a.sku_id = $5) AND ($6::text IS NULL OR $6 = ANY(a.tags))
  AND ($7::uuid IS NULL OR a.org_id = $7)
  AND ($8::uuid IS NULL OR EXISTS (SELECT FROM slot_holds h
       WHERE h.allocation_id = a.id AND h.node_id = $8 AND h.ended_at IS NULL))
ORDER BY a.id DESC LIMIT $9
"""
GPUS = """
SELECT h.node_id, n.name AS node_name, n.address, s.gpu_index, h.serial, s.model, s.numa, h.state,
    coalesce((SELECT q.reason FROM slot_quarantines q
              WHERE q.serial = h.serial AND q.ended_at IS NULL ORDER BY q.since LIMIT 1), '') AS quarantine
FROM slot_holds h JOIN slots s ON s.id = h.slot_id JOIN nodes n ON n.id = h.node_id
WHERE h.allocation_id = $1 ORDER BY n.name, s.gpu_index
"""
OPEN_HOLDS = "SELECT * FROM slot_holds WHERE allocation_id = $1 AND ended_at IS NULL ORDER BY node_id, serial"
# The one statement that writes the state of a hold.
MOVE_HOLDS = """
UPDATE slot_holds SET state = $3, state_since = now(), due_at = now() + make_interval(secs => $5::float8),
    ended_at = CASE WHEN $3 = ANY($6) THEN NULL ELSE now() END
WHERE allocation_id = $1 AND ($2::uuid[] IS NULL OR id = ANY($2)) AND state = ANY($4)
"""
PROOF = """
INSERT INTO allocation_proofs (id, org_id, allocation_id, node_id, task_id, serials, passed, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (task_id) DO NOTHING
"""
LIVE_IN_PROJECT = "SELECT EXISTS (SELECT FROM allocations WHERE project_id = $1 AND state = ANY($2))"
LIVE_IN_ORG = "SELECT EXISTS (SELECT FROM allocations WHERE org_id = $1 AND state = ANY($2))"


async def insert(tx: Tx, new: NewAllocation) -> Allocation:
    with conflicts(_NAMES):
        row = await tx.row(
            INSERT,
            new.id,
            new.org_id,
            new.project_id,
            new.name,
            new.sku_id,
            new.gpu_count,
            new.node_count,
            new.isolation,
            new.price_id,
            new.tags,
            new.requested_by,
            new.requested_by_id,
            new.ssh_keys,
            new.lease_seconds,
            new.queue_seconds,
            new.correlation_id,
        )
    if row is None:
        raise Missing(Code.PROJECT_MISSING, "There is no such project, or you are not in its organisation.")
    return decode(Allocation, row)


async def get(tx: Tx, allocation_id: UUID) -> Allocation:
    return _found(await tx.row(GET, allocation_id))


async def lock(tx: Tx, allocation_id: UUID) -> Allocation:
    return _found(await tx.row(LOCK, allocation_id))


async def move(
    tx: Tx, allocation_id: AllocationId, *, to: AllocationState, due_seconds: float | None = None
) -> Allocation:
    row = await tx.row(MOVE, allocation_id, to, LIFE.sources(to), due_seconds)
    if row is None:
        raise Conflict(Code.STATE_MOVE_REFUSED, f"The allocation cannot become {to} now.")
    return decode(Allocation, row)


async def placed(tx: Tx, allocation_id: AllocationId, explanation: str) -> Allocation:
    return _found(await tx.row(PLACED, allocation_id, explanation))


async def active(tx: Tx, allocation_id: AllocationId, *, lifetime_seconds: int) -> Allocation:
    return _found(await tx.row(ACTIVE, allocation_id, lifetime_seconds))


async def renew(tx: Tx, allocation_id: AllocationId, *, seconds: int) -> Allocation | None:
    row = await tx.row(RENEW, allocation_id, seconds)
    return None if row is None else decode(Allocation, row)


async def ask_release(tx: Tx, allocation_id: AllocationId, *, reason: str, by: str, forced: bool) -> Allocation:
    return _found(await tx.row(ASK_RELEASE, allocation_id, reason, by, forced))


async def count_force(
    tx: Tx, allocation_id: AllocationId, *, pause_seconds: int, attempts_max: int
) -> Allocation | None:
    """None: too early, too often, or not in the state for it."""
    row = await tx.row(COUNT_FORCE, allocation_id, pause_seconds, attempts_max)
    return None if row is None else decode(Allocation, row)


async def failed(tx: Tx, allocation_id: AllocationId, *, code: str, reason: str) -> Allocation:
    return _found(await tx.row(FAILED, allocation_id, code, reason))


# how to log in, sealed -----------------------------------------------------------------------------------------------
async def keep_connection(tx: Tx, allocation_id: AllocationId, sealed: bytes) -> None:
    await tx.run(CONNECTION, allocation_id, sealed)


async def sealed_by_others(tx: Tx, key_id: UUID, *, after: UUID, limit: int) -> list[tuple[AllocationId, bytes]]:
    rows = await tx.rows(SEALED_BY_OTHERS, key_id.bytes, after, limit)
    return [(row["id"], row["connection_sealed"]) for row in rows]


async def reseal(tx: Tx, allocation_id: AllocationId, old: bytes, new: bytes) -> None:
    await tx.run(RESEAL, allocation_id, old, new)


# as people see them --------------------------------------------------------------------------------------------------
async def show(tx: Tx, allocation_id: UUID) -> Shown:
    row = await tx.row(SHOW, allocation_id)
    if row is None:
        raise _missing()
    return decode(Shown, row)


async def list_of_project(tx: Tx, project_id: UUID, wanted: Wanted, *, before: UUID, limit: int) -> list[Shown]:
    rows = await tx.rows(
        LIST, project_id, before, wanted.state, wanted.live, sorted(LIVE), wanted.sku_id, wanted.tag, limit
    )
    return decode_all(Shown, rows)


async def list_all(tx: Tx, wanted: Wanted, *, before: UUID, limit: int) -> list[Shown]:
    rows = await tx.rows(
        LIST_ALL,
        before,
        wanted.state,
        wanted.live,
        sorted(LIVE),
        wanted.sku_id,
        wanted.tag,
        wanted.org_id,
        wanted.node_id,
        limit,
    )
    return decode_all(Shown, rows)


async def gpus(tx: Tx, allocation_id: UUID) -> list[ShownGpu]:
    return decode_all(ShownGpu, await tx.rows(GPUS, allocation_id))


# holds ---------------------------------------------------------------------------------------------------------------
async def holds(tx: Tx, allocation_id: UUID) -> list[Hold]:
    """Those that have not ended."""
    return decode_all(Hold, await tx.rows(OPEN_HOLDS, allocation_id))


async def holds_move(
    tx: Tx,
    allocation_id: UUID,
    *,
    to: HoldState,
    only: Sequence[HoldId] | None = None,
    due_seconds: float | None = None,
) -> int:
    """Those of an allocation's holds, or only of these, that may become so; how many did."""
    ids = None if only is None else list(only)
    return await tx.run(MOVE_HOLDS, allocation_id, ids, to, HOLD_LIFE.sources(to), due_seconds, sorted(HOLDS))


async def proof_add(tx: Tx, proof: Proof) -> None:
    await tx.run(
        PROOF,
        new_id(),
        proof.org_id,
        proof.allocation_id,
        proof.node_id,
        proof.task_id,
        proof.serials,
        proof.passed,
        proof.detail,
    )


async def live_in(tx: Tx, *, project_id: UUID | None = None, org_id: UUID | None = None) -> bool:
    sql, subject = (LIVE_IN_PROJECT, project_id) if project_id is not None else (LIVE_IN_ORG, org_id)
    return bool(await tx.value(sql, subject, sorted(LIVE)))


def _found(row: Row | None) -> Allocation:
    if row is None:
        raise _missing()
    return decode(Allocation, row)


def _missing() -> Missing:
    return Missing(Code.ALLOCATION_MISSING, "There is no such allocation here.")
