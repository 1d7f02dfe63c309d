"""SQL of when an allocation was proven usable, and when it was last heard of."""

from datetime import datetime
from uuid import UUID

from gpuaas.domains.allocations.money.models import Counted
from gpuaas.infra.postgres.tx import Tx, decode_all

# The last of its nodes to pass made it usable.
PROVEN = "SELECT max(at) FROM allocation_proofs WHERE allocation_id = $1 AND passed"
# The first of its nodes to fall silent made it unusable, as far as anybody knows.
SILENT = """
SELECT min(b.seen_at) FROM slot_holds h JOIN node_heartbeats b ON b.node_id = h.node_id
WHERE h.allocation_id = $1 AND b.liveness <> 'online'
"""


# The nodes whose silence stopped the clock, back again.
COUNTED = """
SELECT DISTINCT b.node_id, b.usage::text AS usage, b.usage_signature,
       coalesce((b.usage_before ->> h.allocation_id::text)::bigint, 0) AS before
FROM slot_holds h JOIN node_heartbeats b ON b.node_id = h.node_id
WHERE h.allocation_id = $1 AND h.ended_at IS NULL AND b.silent_from >= $2
"""


async def counted(tx: Tx, allocation_id: UUID, since: datetime) -> list[Counted]:
    return decode_all(Counted, await tx.rows(COUNTED, allocation_id, since))


async def now(tx: Tx) -> datetime:
    """The database's clock, by which meters run."""
    found: datetime = await tx.value("SELECT clock_timestamp()")
    return found


async def proven_at(tx: Tx, allocation_id: UUID) -> datetime | None:
    found: datetime | None = await tx.value(PROVEN, allocation_id)
    return found


async def silent_since(tx: Tx, allocation_id: UUID) -> datetime | None:
    """The last sign of life of a node of it that is silent now; None: none is."""
    found: datetime | None = await tx.value(SILENT, allocation_id)
    return found
