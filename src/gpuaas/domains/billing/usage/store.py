"""SQL of usage. A row is of the day on which it was charged, so that the usage of a day is what the ledger took."""

from gpuaas.contracts.http.usage import UsageBy
from gpuaas.domains.billing.usage.models import Detail, Line, Wanted
from gpuaas.infra.postgres.tx import Tx, decode_all
from gpuaas.kit.ids import floor_id

_FROM = """
FROM usage u JOIN meters m ON m.id = u.meter_id
JOIN projects p ON p.id = m.project_id JOIN skus k ON k.id = m.sku_id
WHERE u.org_id = $1 AND u.id >= $2 AND u.id < $3 AND ($4::uuid IS NULL OR m.project_id = $4)
  AND ($5::uuid IS NULL OR m.sku_id = $5) AND ($6::uuid IS NULL OR m.asked_by_id = $6)
"""
_DAY = "(uuid_extract_timestamp(u.id) AT TIME ZONE 'UTC')::date"
_SUMS = """m.currency, sum(u.seconds * m.gpus)::bigint AS gpu_seconds, sum(u.micros)::bigint AS micros"""
_NONE = "NULL::uuid AS "
SUMMED = {
    UsageBy.DAY: f"""
SELECT {_DAY} AS day, {_NONE} project_id, {_NONE} sku_id, {_NONE} user_id, {_DAY}::text AS name, {_SUMS}
{_FROM} GROUP BY {_DAY}, m.currency ORDER BY 1, m.currency LIMIT $7""",
    UsageBy.PROJECT: f"""
SELECT NULL::date AS day, m.project_id, {_NONE} sku_id, {_NONE} user_id, p.name, {_SUMS}
{_FROM} GROUP BY m.project_id, p.name, m.currency ORDER BY micros DESC, m.project_id, m.currency LIMIT $7""",
    UsageBy.SKU: f"""
SELECT NULL::date AS day, {_NONE} project_id, m.sku_id, {_NONE} user_id, k.name, {_SUMS}
{_FROM} GROUP BY m.sku_id, k.name, m.currency ORDER BY micros DESC, m.sku_id, m.currency LIMIT $7""",
    UsageBy.USER: f"""
SELECT NULL::date AS day, {_NONE} project_id, {_NONE} sku_id, m.asked_by_id AS user_id, max(m.asked_by) AS name, {_SUMS}
{_FROM} GROUP BY m.asked_by_id, m.currency ORDER BY micros DESC, m.asked_by_id, m.currency LIMIT $7""",
}
DETAILS = f"""
SELECT {_DAY} AS day, p.name AS project, k.name AS sku, m.asked_by AS user, m.subject_id AS allocation_id, m.gpus,
       sum(u.seconds)::bigint AS seconds, sum(u.micros)::bigint AS micros, m.currency
{_FROM} GROUP BY {_DAY}, m.id, p.name, k.name ORDER BY {_DAY}, p.name, k.name, m.id
"""


async def summed(tx: Tx, wanted: Wanted, *, by: UsageBy, limit: int) -> list[Line]:
    return decode_all(Line, await tx.rows(SUMMED[by], *_asked(wanted), limit))


async def details(tx: Tx, wanted: Wanted) -> list[Detail]:
    return decode_all(Detail, await tx.rows(DETAILS, *_asked(wanted)))


def _asked(wanted: Wanted) -> tuple[object, ...]:
    low, high = floor_id(wanted.from_at), floor_id(wanted.to_at)
    return wanted.org_id, low, high, wanted.project_id, wanted.sku_id, wanted.user_id
