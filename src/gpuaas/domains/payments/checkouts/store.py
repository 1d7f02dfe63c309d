"""SQL of payments, and of how the provider calls organisations. One statement writes a state, and names the states it
may come from."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.payments import PaymentState
from gpuaas.domains.payments.checkouts.models import NewPayment, Payment
from gpuaas.domains.payments.checkouts.states import CREATED_LASTS, LATE, LIFE, SLOW_LASTS
from gpuaas.infra.postgres.tx import Tx, decode, decode_all
from gpuaas.kit.errors import Conflict, Missing
from gpuaas.kit.ids import OrgId, PaymentId, TransactionId
from gpuaas.ports.payments import Checkout

INSERT = """
INSERT INTO payments (id, org_id, provider, currency, amount_micros, asked_by, asked_by_id, asked_key, due_at,
                      expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, now() + $9::interval, now() + $10::interval)
ON CONFLICT ON CONSTRAINT payments_asked_once DO NOTHING
"""
BY_KEY = "SELECT * FROM payments WHERE asked_key = $1"
GET = "SELECT * FROM payments WHERE id = $1"
LOCK = "SELECT * FROM payments WHERE id = $1 FOR UPDATE"
LOCK_SESSION = "SELECT * FROM payments WHERE session_id = $1 FOR UPDATE"
LOCK_INTENT = "SELECT * FROM payments WHERE intent_id = $1 FOR UPDATE"
LIST = """
SELECT * FROM payments
WHERE id < $1 AND ($2::text IS NULL OR state = $2) AND ($3::uuid IS NULL OR org_id = $3) ORDER BY id DESC LIMIT $4
"""
LEARN = """
UPDATE payments SET session_id = coalesce(session_id, $2), intent_id = coalesce(intent_id, $3), failure = $4
WHERE id = $1 RETURNING *
"""
MOVE = """
UPDATE payments SET state = $2, state_since = now(),
    due_at = CASE WHEN $2 = 'open' THEN expires_at + $4::interval END,
    url = CASE WHEN $2 = 'open' THEN $5 ELSE '' END, session_id = coalesce(session_id, $6),
    intent_id = coalesce($7, intent_id), failure = $8, transaction_id = coalesce($9, transaction_id),
    paid_at = CASE WHEN $2 = 'succeeded' THEN now() ELSE paid_at END
WHERE id = $1 AND state = ANY($3) RETURNING *
"""
SETTLE = """
UPDATE payments SET state = $2, state_since = CASE WHEN state = $2 THEN state_since ELSE now() END,
    refunded_micros = $4, disputed_micros = $5, dispute = $6
WHERE id = $1 AND state = ANY($3) RETURNING *
"""
MISMATCH = """
UPDATE payments SET taken_micros = $2, taken_currency = $3, taken_session = $4, taken_intent = $5 WHERE id = $1
"""
PROPOSE_ACCEPT = """
UPDATE payments SET accept_by = $2, accept_by_id = $3, accept_reason = $4
WHERE id = $1 AND state = 'failed_reconcile' RETURNING *
"""
ACCEPT = "SELECT * FROM payment_accept($1, $2)"
WAIT = (
    "UPDATE payments SET due_at = greatest(due_at, now() + $2::interval) WHERE id = $1 AND state = 'open' RETURNING *"
)
DUE = """
SELECT * FROM payments WHERE due_at <= now() AND state = ANY($1) ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED
"""
UNSETTLED = """
SELECT * FROM payments WHERE state IN ('created', 'open') AND session_id IS NOT NULL
  AND created_at < now() - $1::interval AND id > $2 ORDER BY id LIMIT $3
"""
CUSTOMER = "SELECT customer_id FROM payment_customers WHERE org_id = $1"
CUSTOMER_KEEP = """
INSERT INTO payment_customers (org_id, customer_id) VALUES ($1, $2) ON CONFLICT (org_id) DO NOTHING
"""

CUSTOMER_CHANGE = "UPDATE payment_customers SET customer_id = $3 WHERE org_id = $1 AND customer_id = $2"


async def insert(tx: Tx, new: NewPayment) -> Payment:
    """The row, or the one that the same request has made before."""
    await tx.run(
        INSERT,
        new.id,
        new.org_id,
        new.provider,
        new.currency,
        new.amount_micros,
        new.asked_by,
        new.asked_by_id,
        new.asked_key,
        CREATED_LASTS,
        timedelta(minutes=new.checkout_minutes),
    )
    row = await tx.row(BY_KEY, new.asked_key)
    assert row is not None  # noqa: S101 # it was there, or was made
    return decode(Payment, row)


async def get(tx: Tx, payment_id: UUID, *, lock: bool = False) -> Payment:
    row = await tx.row(LOCK if lock else GET, payment_id)
    if row is None:
        raise Missing(Code.PAYMENT_MISSING, "There is no such payment here.")
    return decode(Payment, row)


async def find(
    tx: Tx, *, payment_id: UUID | None = None, session_id: str | None = None, intent_id: str | None = None
) -> Payment | None:
    """By whichever name is known, locked."""
    for sql, name in ((LOCK_SESSION, session_id), (LOCK_INTENT, intent_id), (LOCK, payment_id)):
        row = await tx.row(sql, name) if name is not None else None
        if row is not None:
            return decode(Payment, row)
    return None


async def list_all(
    tx: Tx, *, before: UUID, state: PaymentState | None, org_id: UUID | None, limit: int
) -> list[Payment]:
    return decode_all(Payment, await tx.rows(LIST, before, state, org_id, limit))


async def learn(tx: Tx, payment: Payment, *, session_id: str | None, intent_id: str | None, failure: str) -> Payment:
    row = await tx.row(LEARN, payment.id, session_id, intent_id, failure[:500])
    assert row is not None  # noqa: S101 # it is locked
    return decode(Payment, row)


async def move(
    tx: Tx,
    payment_id: PaymentId,
    *,
    to: PaymentState,
    url: str = "",
    session_id: str | None = None,
    intent_id: str | None = None,
    failure: str = "",
    transaction_id: TransactionId | None = None,
) -> Payment:
    sources = LIFE.sources(to)
    row = await tx.row(MOVE, payment_id, to, sources, LATE, url, session_id, intent_id, failure[:500], transaction_id)
    if row is None:
        raise Conflict(Code.STATE_MOVE_REFUSED, f"The payment cannot become {to} now.")
    return decode(Payment, row)


async def settle(
    tx: Tx, payment_id: PaymentId, *, to: PaymentState, refunded_micros: int, disputed_micros: int, dispute: str
) -> Payment:
    row = await tx.row(SETTLE, payment_id, to, [*LIFE.sources(to), to], refunded_micros, disputed_micros, dispute)
    if row is None:
        raise Conflict(Code.STATE_MOVE_REFUSED, f"The payment cannot become {to} now.")
    return decode(Payment, row)


async def wait(tx: Tx, payment_id: PaymentId) -> None:
    await tx.run(WAIT, payment_id, SLOW_LASTS)


async def due(tx: Tx, states: Sequence[PaymentState], limit: int) -> list[Payment]:
    return decode_all(Payment, await tx.rows(DUE, list(states), limit))


async def unsettled(tx: Tx, *, older: timedelta, after: UUID, limit: int) -> list[Payment]:
    return decode_all(Payment, await tx.rows(UNSETTLED, older, after, limit))


async def customer(tx: Tx, org_id: OrgId) -> str | None:
    found: str | None = await tx.value(CUSTOMER, org_id)
    return found


async def customer_keep(tx: Tx, org_id: OrgId, customer_id: str) -> None:
    await tx.run(CUSTOMER_KEEP, org_id, customer_id)


async def mismatch(tx: Tx, payment_id: PaymentId, said: Checkout, taken_micros: int) -> None:
    """Remember what was taken in its stead."""
    await tx.run(MISMATCH, payment_id, taken_micros, said.currency[:10], said.id, said.intent_id)


async def accept_proposed(tx: Tx, payment_id: PaymentId, by: tuple[str, UUID], reason: str) -> Payment:
    row = await tx.row(PROPOSE_ACCEPT, payment_id, *by, reason)
    assert row is not None  # noqa: S101 # it is locked, and was in that state
    return decode(Payment, row)


async def accept(tx: Tx, payment_id: PaymentId, transaction_id: TransactionId) -> Payment:
    """What was taken is what was asked for from now on."""
    row = await tx.row(ACCEPT, payment_id, transaction_id)
    assert row is not None  # noqa: S101 # it is locked, and was in that state
    return decode(Payment, row)


async def customer_change(tx: Tx, org_id: OrgId, was: str, customer_id: str) -> None:
    await tx.run(CUSTOMER_CHANGE, org_id, was, customer_id)
