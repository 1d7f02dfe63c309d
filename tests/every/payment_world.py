"""Payments in the small world. The money of a paid one is posted as all money is."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.every.world import Setting

MICROS = 1_000_000
POST = """
SELECT transaction_id FROM (SELECT set_config('app.org_id', '*', false)) AS seen,
LATERAL ledger_post('top_up', $1, $2, 'USD', '{tenant,clearing}', ARRAY[$3::bigint, -$3::bigint], $4, 'example', NULL,
                    'example', 'example')
"""


async def put_payment(s: Setting, units: int = 50, *, paid: bool = False, **more: Any) -> UUID:
    """Asked for, or paid."""
    payment_id, amount = new_id(), units * MICROS
    session_id = f"cs_{payment_id.hex}"
    row: dict[str, Any] = {
        "id": payment_id,
        "org_id": s.org_id,
        "provider": "stripe",
        "currency": "USD",
        "amount_micros": amount,
        "state": "created",
        "due_at": clock.now() + timedelta(minutes=10),
        "expires_at": clock.now() + timedelta(minutes=50),
        "asked_by": "somebody",
        "asked_by_id": s.people["owner"].id,
        "asked_key": new_id().hex,
    }
    if paid:
        transaction_id = await s.sql.fetchval(POST, session_id, s.org_id, amount, payment_id)
        row |= {"state": "succeeded", "due_at": None, "session_id": session_id, "intent_id": f"pi_{payment_id.hex}"}
        row |= {"transaction_id": transaction_id, "paid_at": clock.now()}
    await s.put("payments", **(row | more))
    if paid:
        await s.put(
            "payment_effects",
            object_id=session_id,
            effect="paid",
            org_id=s.org_id,
            payment_id=payment_id,
            currency="USD",
            amount_micros=amount,
            transaction_id=row["transaction_id"],
            source="notice",
        )
        await s.sql.execute(
            "INSERT INTO payment_customers (org_id, customer_id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            s.org_id,
            f"cus_{s.org_id.hex}",
        )
    return payment_id


async def put_refund(s: Setting, payment_id: UUID, **more: Any) -> UUID:
    """Proposed by somebody else than those who will decide."""
    refund_id = new_id()
    row: dict[str, Any] = {
        "id": refund_id,
        "org_id": s.org_id,
        "payment_id": payment_id,
        "currency": "USD",
        "amount_micros": 5 * MICROS,
        "reason": "as an example",
        "state": "proposed",
        "due_at": clock.now() + timedelta(days=1),
        "asked_by": "somebody",
        "asked_by_id": new_id(),
    }
    await s.put("payment_refunds", **(row | more))
    return refund_id
