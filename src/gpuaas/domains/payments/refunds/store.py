"""SQL of refunds. One statement writes a state, and names the states it may come from."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.payments import RefundState
from gpuaas.domains.payments.refunds.models import NewRefund, Refund
from gpuaas.domains.payments.refunds.states import LIFE, PROPOSAL_LASTS, REQUEST_LASTS, TAKES, S
from gpuaas.infra.postgres.tx import Tx, decode, decode_all
from gpuaas.kit.errors import Conflict, Missing
from gpuaas.kit.ids import MoneyHoldId, PaymentId, RefundId, TransactionId

INSERT = """
INSERT INTO payment_refunds (id, org_id, payment_id, currency, amount_micros, reason, state, due_at, asked_by,
                             asked_by_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, now() + $8::interval, $9, $10) RETURNING *
"""
GET = "SELECT * FROM payment_refunds WHERE id = $1"
LOCK = "SELECT * FROM payment_refunds WHERE id = $1 FOR UPDATE"
OF_OBJECT = """
SELECT * FROM payment_refunds
WHERE payment_id = $1 AND (provider_refund_id = $2 OR (id = $3 AND provider_refund_id IS NULL)) FOR UPDATE
"""
LIST = """
SELECT * FROM payment_refunds
WHERE id < $1 AND ($2::text IS NULL OR state = $2) AND ($3::uuid IS NULL OR org_id = $3)
  AND ($4::uuid IS NULL OR payment_id = $4) ORDER BY id DESC LIMIT $5
"""
TAKEN = "SELECT coalesce(sum(amount_micros), 0)::bigint FROM payment_refunds WHERE payment_id = $1 AND state = ANY($2)"
# One request of a person after the other: many small ones at once are a large one.
TURN = "SELECT pg_advisory_xact_lock(uuid_hash_extended($1, 16))"
ALONE = """
SELECT coalesce(sum(amount_micros), 0)::bigint FROM payment_refunds
WHERE asked_by_id = $1 AND currency = $2 AND decided_by_id IS NULL AND state = ANY($3)
  AND created_at > now() - interval '1 day'
"""
MOVE = """
UPDATE payment_refunds SET state = $2, state_since = now(), failure = $5,
    due_at = CASE WHEN $2 = 'requested' THEN now() + $4::interval END,
    decided_by = CASE WHEN $7::uuid IS NULL THEN decided_by ELSE $6 END, decided_by_id = coalesce($7, decided_by_id),
    decision = CASE WHEN $7::uuid IS NULL THEN decision ELSE $8 END,
    provider_refund_id = coalesce(provider_refund_id, $9), transaction_id = coalesce($10, transaction_id)
WHERE id = $1 AND state = ANY($3) RETURNING *
"""
HELD = "UPDATE payment_refunds SET hold_id = $2 WHERE id = $1"
DUE = """
SELECT * FROM payment_refunds WHERE due_at <= now() AND state = ANY($1) ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED
"""


async def insert(tx: Tx, new: NewRefund) -> Refund:
    row = await tx.row(
        INSERT,
        new.id,
        new.org_id,
        new.payment_id,
        new.currency,
        new.amount_micros,
        new.reason,
        S.PROPOSED if new.proposed else S.REQUESTED,
        PROPOSAL_LASTS if new.proposed else REQUEST_LASTS,
        new.asked_by,
        new.asked_by_id,
    )
    assert row is not None  # noqa: S101 # an insert returns its row
    return decode(Refund, row)


async def get(tx: Tx, refund_id: UUID, *, lock: bool = False) -> Refund:
    row = await tx.row(LOCK if lock else GET, refund_id)
    if row is None:
        raise Missing(Code.REFUND_MISSING, "There is no such refund.")
    return decode(Refund, row)


async def of_object(tx: Tx, payment_id: PaymentId, object_id: str, refund_id: UUID | None) -> Refund | None:
    row = await tx.row(OF_OBJECT, payment_id, object_id, refund_id)
    return None if row is None else decode(Refund, row)


async def list_all(
    tx: Tx,
    *,
    before: UUID,
    state: RefundState | None,
    org_id: UUID | None,
    payment_id: UUID | None,
    limit: int,
) -> list[Refund]:
    return decode_all(Refund, await tx.rows(LIST, before, state, org_id, payment_id, limit))


async def taken(tx: Tx, payment_id: PaymentId) -> int:
    """What refunds under way will take of it."""
    return int(await tx.value(TAKEN, payment_id, list(TAKES)))


async def asked_alone(tx: Tx, who_id: UUID, currency: str) -> int:
    """What he had refunded in the last day without anybody else. His requests take turns from here on."""
    await tx.value(TURN, who_id)
    return int(await tx.value(ALONE, who_id, currency, [S.REQUESTED, S.SUCCEEDED]))


async def move(
    tx: Tx,
    refund_id: RefundId,
    *,
    to: RefundState,
    failure: str = "",
    by: tuple[str, UUID] | None = None,
    decision: str = "",
    object_id: str | None = None,
    transaction_id: TransactionId | None = None,
) -> Refund:
    who, who_id = by or ("", None)
    row = await tx.row(
        MOVE,
        refund_id,
        to,
        LIFE.sources(to),
        REQUEST_LASTS,
        failure[:500],
        who,
        who_id,
        decision,
        object_id,
        transaction_id,
    )
    if row is None:
        raise Conflict(Code.STATE_MOVE_REFUSED, f"The refund cannot become {to} now.")
    return decode(Refund, row)


async def held(tx: Tx, refund_id: RefundId, hold_id: MoneyHoldId) -> None:
    await tx.run(HELD, refund_id, hold_id)


async def due(tx: Tx, limit: int) -> list[Refund]:
    return decode_all(Refund, await tx.rows(DUE, list(LIFE.deadlines()), limit))
