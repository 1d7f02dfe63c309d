"""SQL of adjustments. One statement writes a state, and names the states it may come from."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.billing import AdjustmentState
from gpuaas.domains.billing.adjustments.models import Adjustment, Change
from gpuaas.domains.billing.adjustments.states import LIFE, PROPOSAL_LASTS, S
from gpuaas.infra.postgres.tx import Tx, conflicts, decode, decode_all
from gpuaas.kit.errors import Conflict, Missing
from gpuaas.kit.ids import AdjustmentId, TransactionId

_ONCE = {"ledger_adjustments_one_reversal": Code.LEDGER_REVERSED_ALREADY}

INSERT = """
INSERT INTO ledger_adjustments (id, org_id, currency, amount_micros, reverses_id, reason, state, due_at, proposed_by,
                                proposed_by_id, transaction_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, CASE WHEN $7 = 'proposed' THEN now() + $8::interval END, $9, $10, $11) RETURNING *
"""
GET = "SELECT * FROM ledger_adjustments WHERE id = $1"
LOCK = "SELECT * FROM ledger_adjustments WHERE id = $1 FOR UPDATE"
# What somebody posted alone in the last day, one request after the other: many small ones are a large one.
TURN = "SELECT pg_advisory_xact_lock(uuid_hash_extended($1, 13))"
ALONE = """
SELECT coalesce(sum(abs(amount_micros)), 0)::bigint FROM ledger_adjustments
WHERE id >= floor_id(now() - interval '25 hours') AND created_at > now() - interval '24 hours' AND proposed_by_id = $1
  AND currency = $2 AND state = 'posted' AND decided_by_id IS NULL
"""
LIST = """
SELECT * FROM ledger_adjustments
WHERE id < $1 AND ($2::text IS NULL OR state = $2) AND ($3::uuid IS NULL OR org_id = $3) ORDER BY id DESC LIMIT $4
"""
MOVE = """
UPDATE ledger_adjustments SET state = $2, state_since = now(), due_at = NULL, decided_by = $4, decided_by_id = $5,
    decision = $6, transaction_id = $7
WHERE id = $1 AND state = ANY($3) AND due_at > now() RETURNING *
"""
EXPIRE = """
UPDATE ledger_adjustments SET state = 'expired', state_since = now(), due_at = NULL
WHERE state = ANY($1) AND due_at <= now() RETURNING id
"""


async def insert(
    tx: Tx,
    adjustment_id: AdjustmentId,
    change: Change,
    *,
    by: tuple[str, UUID],
    transaction_id: TransactionId | None,
) -> Adjustment:
    with conflicts(_ONCE):
        row = await tx.row(
            INSERT,
            adjustment_id,
            change.org_id,
            change.currency,
            change.amount_micros,
            change.reverses_id,
            change.reason,
            S.PROPOSED if transaction_id is None else S.POSTED,
            PROPOSAL_LASTS,
            *by,
            transaction_id,
        )
    assert row is not None  # noqa: S101 # an insert without a conflict returns its row
    return decode(Adjustment, row)


async def get(tx: Tx, adjustment_id: AdjustmentId, *, lock: bool = False) -> Adjustment:
    row = await tx.row(LOCK if lock else GET, adjustment_id)
    if row is None:
        raise Missing(Code.ADJUSTMENT_MISSING, "There is no such adjustment.")
    return decode(Adjustment, row)


async def posted_alone(tx: Tx, by_id: UUID, currency: str) -> int:
    """What this person posted in the last day without a second one. His requests take turns from here on."""
    await tx.value(TURN, by_id)
    return int(await tx.value(ALONE, by_id, currency))


async def list_all(
    tx: Tx, *, before: UUID, state: AdjustmentState | None, org_id: UUID | None, limit: int
) -> list[Adjustment]:
    return decode_all(Adjustment, await tx.rows(LIST, before, state, org_id, limit))


async def move(
    tx: Tx,
    adjustment_id: AdjustmentId,
    *,
    to: AdjustmentState,
    by: tuple[str, UUID],
    decision: str,
    transaction_id: TransactionId | None = None,
) -> Adjustment:
    row = await tx.row(MOVE, adjustment_id, to, LIFE.sources(to), *by, decision, transaction_id)
    if row is None:
        raise Conflict(Code.STATE_MOVE_REFUSED, "The adjustment was decided, or its time is over.")
    return decode(Adjustment, row)


async def expire(tx: Tx) -> int:
    return len(await tx.rows(EXPIRE, LIFE.sources(S.EXPIRED)))
