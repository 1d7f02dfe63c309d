"""SQL of heartbeats: many at once, in one statement, each on a row that stays where it is."""

from collections.abc import Mapping
from uuid import UUID

import msgspec

from gpuaas.contracts.http.agent import Heartbeat
from gpuaas.domains.nodes.liveness.models import Noted, Woken
from gpuaas.infra.postgres.tx import Tx, decode_all

# In order of the node, so that two replicas never wait for each other in a circle.
# First those that were silent, or have another boot: of two replicas that hear one at once, one finds it so.
WOKEN = """
WITH old AS (
    SELECT h.node_id, h.liveness,
           h.boot_id <> b.boot_id AND h.boot_id <> 'unknown' AND b.boot_id <> 'unknown' AS rebooted
    FROM node_heartbeats h
    JOIN unnest($1::uuid[], $2::text[]) AS b (node_id, boot_id) USING (node_id)
    JOIN nodes n ON n.id = h.node_id AND n.state = 'active'
    WHERE h.liveness <> 'online'
       OR (h.boot_id <> b.boot_id AND h.boot_id <> 'unknown' AND b.boot_id <> 'unknown')
    ORDER BY h.node_id FOR NO KEY UPDATE OF h
)
UPDATE node_heartbeats h SET liveness = 'online',
    liveness_since = CASE WHEN old.liveness = 'online' THEN h.liveness_since ELSE now() END,
    usage_before = CASE WHEN old.liveness = 'online' THEN h.usage_before ELSE h.usage END,
    silent_from = CASE WHEN old.liveness = 'online' THEN h.silent_from ELSE h.seen_at END
FROM old WHERE h.node_id = old.node_id
RETURNING h.node_id, old.liveness AS before, old.rebooted
"""
BEAT = """
WITH noted AS (
    INSERT INTO node_heartbeats AS h (node_id, seen_at, sent_at, liveness, liveness_since, boot_id, agent_version,
                                      next_sequence, generation, accounts, leases, usage,
                                      usage_signature)
    SELECT b.node_id, now(), b.sent_at, 'online', now(), b.boot_id, b.agent_version, b.next_sequence, b.generation,
           string_to_array(b.accounts, ','), b.leases::jsonb, b.usage::jsonb, b.usage_signature
    FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[],
                $8::text[], $9::text[], $10::text[])
        AS b (node_id, sent_at, boot_id, agent_version, next_sequence, generation, accounts, leases, usage,
              usage_signature)
    JOIN nodes n ON n.id = b.node_id WHERE n.state = 'active' ORDER BY b.node_id
    ON CONFLICT (node_id) DO UPDATE SET seen_at = now(), sent_at = excluded.sent_at, boot_id = excluded.boot_id,
        agent_version = excluded.agent_version, next_sequence = excluded.next_sequence,
        generation = excluded.generation, accounts = excluded.accounts, leases = excluded.leases,
        usage = excluded.usage, usage_signature = excluded.usage_signature
    RETURNING h.node_id
)
SELECT n.id AS node_id, n.generation, n.cordoned, n.drained FROM noted JOIN nodes n ON n.id = noted.node_id
"""
FADE = """
UPDATE node_heartbeats h SET liveness = $1, liveness_since = now()
FROM nodes n
WHERE n.id = h.node_id AND n.state = 'active' AND h.liveness = $2 AND h.seen_at < now() - make_interval(secs => $3)
RETURNING h.node_id
"""


async def woken(tx: Tx, beats: Mapping[UUID, Heartbeat]) -> list[Woken]:
    return decode_all(Woken, await tx.rows(WOKEN, list(beats), [b.boot_id for b in beats.values()]))


async def beat(tx: Tx, beats: Mapping[UUID, Heartbeat]) -> list[Noted]:
    said = list(beats.values())
    rows = await tx.rows(
        BEAT,
        list(beats),
        [b.sent_at for b in said],
        [b.boot_id for b in said],
        [b.agent_version for b in said],
        [b.next_sequence for b in said],
        [b.generation for b in said],
        [",".join(b.accounts) for b in said],
        [msgspec.json.encode(b.leases).decode() for b in said],
        [msgspec.json.encode(b.usage).decode() for b in said],
        [b.usage_signature for b in said],
    )
    return decode_all(Noted, rows)


async def fade(tx: Tx, *, frm: str, to: str, seconds: int) -> list[UUID]:
    """Nodes that were silent for so long, and are noted as such now."""
    return [row["node_id"] for row in await tx.rows(FADE, to, frm, seconds)]
