"""SQL of nodes. Liveness is told from the clock as well as from what was last noted: a lease that has just run out is
not `online`, whether or not a sweep has seen it."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.nodes import NodeState
from gpuaas.domains.nodes.registry.models import NewNode, Node, Wanted
from gpuaas.domains.nodes.registry.states import LIFE
from gpuaas.infra.postgres.tx import Row, Tx, conflicts, decode, decode_all
from gpuaas.kit.errors import Conflict, Missing

_NAMES = {"nodes_one_name": Code.NODE_NAME_TAKEN}
_LIVENESS = """CASE WHEN h.node_id IS NULL THEN 'new'
         WHEN h.liveness = 'online' AND h.seen_at < now() - make_interval(secs => {lease}) THEN 'unknown'
         ELSE h.liveness END"""
_COLUMNS = """n.id, n.name, n.region, n.sku_id, n.address, n.labels, n.tags, n.state, n.state_since, n.cordoned,
    n.drained, n.generation, n.differences, n.inspected_at, n.host_healthy, n.host_detail, n.checked_at,
    n.quarantine_reason, n.quarantine_detail, n.quarantined_at, n.returned_at, n.enrolled_at, n.created_at,
    h.seen_at, coalesce(h.agent_version, '') AS agent_version, coalesce(h.boot_id, '') AS boot_id,
    coalesce(h.generation, 0) AS observed_generation, coalesce(h.accounts, '{}') AS accounts, """
_FROM = " FROM nodes n LEFT JOIN node_heartbeats h ON h.node_id = n.id "
_HEALTH = """CASE WHEN n.quarantine_reason IS NOT NULL THEN 'quarantined' WHEN n.host_healthy IS NULL THEN 'unchecked'
         WHEN n.host_healthy THEN 'healthy' ELSE 'unhealthy' END"""
_SELECT = f"SELECT {_COLUMNS} {_LIVENESS.format(lease='$1')} AS liveness {_FROM}"
GET = f"{_SELECT} WHERE n.id = $2 AND n.state <> 'removed'"
LOCK = f"{GET} FOR NO KEY UPDATE OF n"
SEVERAL = f"{_SELECT} WHERE n.id = ANY($2)"
LIST = f"""
{_SELECT}
WHERE n.id > $2 AND (n.state = $3 OR ($3::text IS NULL AND n.state <> 'removed'))
  AND ($4::text IS NULL OR n.region = $4) AND ($5::uuid IS NULL OR n.sku_id = $5)
  AND ($6::text IS NULL OR n.labels ? $6) AND ($7::jsonb IS NULL OR n.labels @> $7)
  AND ($8::text IS NULL OR {_LIVENESS.format(lease="$1")} = $8) AND ($9::text IS NULL OR {_HEALTH} = $9)
ORDER BY n.id LIMIT $10
"""
INSERT = """
INSERT INTO nodes (id, name, region, sku_id, address, labels, tags, state)
VALUES ($1, $2, $3, $4, $5, $6::jsonb, $7, 'enrolling')
"""
UPDATE = """
UPDATE nodes SET labels = coalesce($2::jsonb, labels), tags = coalesce($3, tags), address = coalesce($4, address)
WHERE id = $1 AND state <> 'removed'
"""
# What is wanted has a number that grows with every change, so that an agent can say which it has taken over.
DESIRE = """
UPDATE nodes SET cordoned = coalesce($2, cordoned), drained = coalesce($3, drained),
    generation = generation + CASE WHEN cordoned IS DISTINCT FROM coalesce($2, cordoned)
                                     OR drained IS DISTINCT FROM coalesce($3, drained) THEN 1 ELSE 0 END
WHERE id = $1 AND state <> 'removed'
"""
MOVE = "UPDATE nodes SET state = $2, state_since = now() WHERE id = $1 AND state = ANY($3)"
ENROLLED = """
UPDATE nodes SET state = CASE WHEN state = 'enrolling' THEN 'active' ELSE state END,
    state_since = CASE WHEN state = 'enrolling' THEN now() ELSE state_since END,
    enrolled_at = now(), host_healthy = NULL, host_detail = '', inspected_at = NULL
WHERE id = $1 AND state = ANY($2)
"""
INSPECTED = """
UPDATE nodes SET inspected_at = $4, differences = $2, topology = $3::jsonb
WHERE id = $1 AND state <> 'removed' AND (inspected_at IS NULL OR inspected_at < $4)
"""
CHECKED = """
UPDATE nodes SET checked_at = $4, host_healthy = $2, host_detail = $3
WHERE id = $1 AND (checked_at IS NULL OR checked_at < $4)
"""
QUARANTINE = """
UPDATE nodes SET quarantine_reason = $2, quarantine_detail = $3, quarantined_at = now()
WHERE id = $1 AND quarantine_reason IS NULL AND state <> 'removed'
"""
# In quarantine already: the moment is the last trouble's, so that a check asked for before it returns nothing.
QUARANTINE_AGAIN = """
UPDATE nodes SET quarantined_at = now(), quarantine_detail = CASE
    WHEN quarantine_reason = $2 OR position($2 || ': ' IN quarantine_detail) > 0 THEN quarantine_detail
    ELSE left(quarantine_detail || '; then ' || $2 || ': ' || $3, $4) END
WHERE id = $1 AND quarantine_reason IS NOT NULL AND state <> 'removed'
"""
RETURN = """
UPDATE nodes SET quarantine_reason = NULL, quarantine_detail = '', quarantined_at = NULL, returned_at = now()
WHERE id = $1 AND quarantine_reason IS NOT NULL AND quarantined_at < $2
"""
FORGET = "UPDATE nodes SET inspected_at = NULL, checked_at = NULL, host_healthy = NULL, host_detail = '' WHERE id = $1"
OUT_OF_SERVICE = """
SELECT asked.id FROM unnest($1::uuid[]) AS asked (id)
WHERE NOT EXISTS (SELECT FROM nodes n WHERE n.id = asked.id AND n.state IN ('enrolling', 'active'))
"""
COUNTS = f"""
SELECT n.state, {_LIVENESS.format(lease="$1")} AS liveness, count(*) AS nodes {_FROM}
WHERE n.state <> 'removed' GROUP BY 1, 2
"""


async def get(tx: Tx, node_id: UUID, *, lease: int) -> Node:
    return _found(await tx.row(GET, lease, node_id))


async def lock(tx: Tx, node_id: UUID, *, lease: int) -> Node:
    return _found(await tx.row(LOCK, lease, node_id))


async def several(tx: Tx, ids: list[UUID], *, lease: int) -> dict[UUID, Node]:
    nodes = decode_all(Node, await tx.rows(SEVERAL, lease, ids))
    return {node.id: node for node in nodes}


async def list_all(tx: Tx, wanted: Wanted, *, lease: int, after: UUID, limit: int) -> list[Node]:
    labels = None if wanted.labels is None else msgspec.json.encode(wanted.labels).decode()
    rows = await tx.rows(
        LIST,
        lease,
        after,
        wanted.state,
        wanted.region,
        wanted.sku_id,
        wanted.label_name,
        labels,
        wanted.liveness,
        wanted.health,
        limit,
    )
    return decode_all(Node, rows)


async def insert(tx: Tx, new: NewNode) -> None:
    with conflicts(_NAMES):
        await tx.run(
            INSERT,
            new.id,
            new.name,
            new.region,
            new.sku_id,
            new.address,
            msgspec.json.encode(new.labels).decode(),
            new.tags,
        )


async def update(
    tx: Tx, node_id: UUID, *, labels: dict[str, str] | None, tags: list[str] | None, address: str | None
) -> None:
    _touched(
        await tx.run(UPDATE, node_id, None if labels is None else msgspec.json.encode(labels).decode(), tags, address)
    )


async def desire(tx: Tx, node_id: UUID, *, cordoned: bool | None = None, drained: bool | None = None) -> None:
    _touched(await tx.run(DESIRE, node_id, cordoned, drained))


async def move(tx: Tx, node_id: UUID, *, to: NodeState) -> None:
    if not await tx.run(MOVE, node_id, to, LIFE.sources(to)):
        raise Conflict(Code.STATE_MOVE_REFUSED, f"The node cannot become {to} now.")


async def enrolled(tx: Tx, node_id: UUID) -> bool:
    return await tx.run(ENROLLED, node_id, [NodeState.ENROLLING, NodeState.ACTIVE]) > 0


async def inspected(tx: Tx, node_id: UUID, differences: list[str], topology: str, at: datetime) -> None:
    await tx.run(INSPECTED, node_id, differences, topology, at)


async def checked(tx: Tx, node_id: UUID, healthy: bool, detail: str, at: datetime) -> None:
    """Unless a later check has been noted: events come in any order."""
    await tx.run(CHECKED, node_id, healthy, detail, at)


async def quarantine(tx: Tx, node_id: UUID, reason: str, detail: str, *, longest: int) -> bool:
    """False: it was in quarantine, and has one more reason to be."""
    if await tx.run(QUARANTINE, node_id, reason, detail[:longest]):
        return True
    await tx.run(QUARANTINE_AGAIN, node_id, reason, detail, longest)
    return False


async def give_back(tx: Tx, node_id: UUID, *, asked_at: datetime) -> bool:
    return await tx.run(RETURN, node_id, asked_at) > 0


async def forget(tx: Tx, node_id: UUID) -> None:
    """What was found on it does not count any more."""
    await tx.run(FORGET, node_id)


async def out_of_service(tx: Tx, nodes: Collection[UUID]) -> list[UUID]:
    """Those whose agents are not listened to."""
    return [row["id"] for row in await tx.rows(OUT_OF_SERVICE, list(nodes))]


async def counts(tx: Tx, *, lease: int) -> list[tuple[str, str, int]]:
    return [(row["state"], row["liveness"], row["nodes"]) for row in await tx.rows(COUNTS, lease)]


def _found(row: Row | None) -> Node:
    if row is None:
        raise Missing(Code.NODE_MISSING, "There is no such node.")
    return decode(Node, row)


def _touched(rows: int) -> None:
    if not rows:
        raise Missing(Code.NODE_MISSING, "There is no such node.")
