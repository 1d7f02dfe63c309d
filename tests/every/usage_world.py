"""Usage in the small world: a meter that ran, stood still and was charged, by the database's own functions."""

from datetime import timedelta
from uuid import UUID

from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from tests.every.billing_world import put_money
from tests.every.fleet_world import put_sku
from tests.every.world import Setting


async def put_usage(s: Setting, *, gpus: int = 2, asked_by: str = "ada@example.com") -> UUID:
    """An hour's, paid for; the meter still runs. Its subject's id."""
    await put_money(s)
    subject_id, began, sku_id = new_id(), clock.now() - timedelta(hours=1), await put_sku(s)
    price_id = await s.sql.fetchval("SELECT id FROM sku_prices WHERE sku_id = $1", sku_id)
    await s.sql.fetchval("SELECT set_config('app.org_id', '*', false)")
    await s.sql.fetch(
        "SELECT meter_open(uuidv7(), $1, $2, $3, $4, $5::integer, $6, 3500000::bigint * $5::integer, 'USD', $7, $8, "
        "$9)",
        s.org_id,
        s.project_id,
        subject_id,
        sku_id,
        gpus,
        price_id,
        asked_by,
        s.people["owner"].id,
        began,
    )
    await s.sql.fetch("SELECT meter_pause($1, $2, 'XID 79')", subject_id, began + timedelta(minutes=10))
    await s.sql.fetch("SELECT meter_resume($1, $2)", subject_id, began + timedelta(minutes=20))
    await s.sql.fetch("SELECT usage_settle($1, 'example', 'example')", subject_id)
    return subject_id
