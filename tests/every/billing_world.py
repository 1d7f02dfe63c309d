"""Money in the small world. Posted through the database's own functions: there is no other way, not even for tests."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.every.world import Setting

MICROS = 1_000_000


async def put_money(s: Setting, units: int = 50) -> UUID:
    """A top-up; the transaction's id."""
    posted: UUID = await s.sql.fetchval(
        "SELECT transaction_id FROM (SELECT set_config('app.org_id', '*', false)) AS seen, "
        "LATERAL ledger_post('top_up', $1, $2, 'USD', '{tenant,clearing}', ARRAY[$3::bigint, -$3::bigint], NULL, "
        "'example', NULL, 'example', 'example')",
        new_id().hex,
        s.org_id,
        units * MICROS,
    )
    return posted


async def put_hold(s: Setting, units: int = 5, *, seconds: float = 3600) -> UUID:
    await put_money(s)
    held: UUID = await s.sql.fetchval(
        "SELECT id FROM ledger_hold_take($1, $2, $3, 'USD', $4, NULL, 'example', $5)",
        new_id(),
        new_id().hex,
        s.org_id,
        units * MICROS,
        clock.now() + timedelta(seconds=seconds),
    )
    return held


async def put_adjustment(s: Setting, *, by: UUID | None = None, **more: Any) -> UUID:
    """Proposed by somebody else than those who will decide."""
    adjustment_id = new_id()
    row: dict[str, Any] = {
        "id": adjustment_id,
        "org_id": s.org_id,
        "currency": "USD",
        "amount_micros": 500 * MICROS,
        "reason": "as an example",
        "state": "proposed",
        "due_at": clock.now() + timedelta(days=1),
        "proposed_by": "somebody",
        "proposed_by_id": by or new_id(),
    }
    await s.put("ledger_adjustments", **(row | more))
    return adjustment_id
