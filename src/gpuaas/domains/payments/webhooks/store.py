"""SQL of notices. One statement writes a state, and names the states it may come from."""

from uuid import UUID

from gpuaas.domains.payments.webhooks.models import Webhook
from gpuaas.domains.payments.webhooks.states import LIFE, WAITING_LASTS, S, WebhookState
from gpuaas.infra.postgres.tx import Tx, decode
from gpuaas.ports.payments import Notice

INSERT = """
INSERT INTO webhook_events (id, event_id, type, object_id, body) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT ON CONSTRAINT webhook_events_once DO NOTHING RETURNING id
"""
LOCK = "SELECT id, event_id, type, state, body FROM webhook_events WHERE id = $1 FOR UPDATE"
MOVE = """
UPDATE webhook_events SET state = $2, state_since = now(), detail = $4, intent_id = $5,
    due_at = CASE WHEN $2 = 'waiting' THEN now() + $6::interval END
WHERE id = $1 AND state = ANY($3)
"""
WAITING = "SELECT id FROM webhook_events WHERE state = 'waiting' AND intent_id = $1 ORDER BY id LIMIT $2"
EXPIRE = """
UPDATE webhook_events SET state = 'ignored', state_since = now(), due_at = NULL,
    detail = 'nothing of ours, or never paid'
WHERE state = ANY($1) AND due_at <= now()
"""

PRUNE = """
DELETE FROM webhook_events WHERE id IN (
    SELECT id FROM webhook_events WHERE id < $1 AND state = ANY($2) ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED)
"""


async def insert(tx: Tx, webhook_id: UUID, notice: Notice, body: bytes) -> bool:
    """False: it is here already."""
    made = await tx.value(INSERT, webhook_id, notice.event_id, notice.type, notice.object_id, body)
    return made is not None


async def lock(tx: Tx, webhook_id: UUID) -> Webhook | None:
    row = await tx.row(LOCK, webhook_id)
    return None if row is None else decode(Webhook, row)


async def move(tx: Tx, webhook_id: UUID, *, to: WebhookState, detail: str = "", intent_id: str | None = None) -> None:
    sources = [*LIFE.sources(to), *([S.WAITING] if to is S.WAITING else [])]
    await tx.run(MOVE, webhook_id, to, sources, detail[:500], intent_id, WAITING_LASTS)


async def waiting(tx: Tx, intent_id: str, limit: int) -> list[UUID]:
    return [row["id"] for row in await tx.rows(WAITING, intent_id, limit)]


async def expire(tx: Tx) -> int:
    return await tx.run(EXPIRE, list(LIFE.deadlines()))


async def prune(tx: Tx, *, before: UUID, limit: int) -> int:
    return await tx.run(PRUNE, before, [S.ACTED, S.IGNORED], limit)
