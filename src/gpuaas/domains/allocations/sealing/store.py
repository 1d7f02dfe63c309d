"""SQL of data keys, with what they seal."""

from gpuaas.domains.allocations.sealing.models import DataKey
from gpuaas.infra.postgres.tx import Tx, decode_all

KEYS = """
SELECT k.id, k.created_at, k.retired_at, coalesce(s.fields, 0) AS sealed_fields
FROM data_keys k LEFT JOIN (
    SELECT encode(substring(connection_sealed FOR 16), 'hex')::uuid AS key_id, count(*) AS fields
    FROM allocations WHERE connection_sealed IS NOT NULL GROUP BY 1
) AS s ON s.key_id = k.id
ORDER BY k.created_at DESC, k.id DESC LIMIT $1
"""


async def keys(tx: Tx, limit: int) -> list[DataKey]:
    return decode_all(DataKey, await tx.rows(KEYS, limit))
