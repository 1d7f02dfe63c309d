"""SQL of notifications. What one event tells many is written in one statement."""

from collections.abc import Sequence
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.base import Envelope
from gpuaas.domains.notifications.catalogue import Kind
from gpuaas.domains.notifications.mail.states import LASTS
from gpuaas.domains.notifications.models import Notification, Told
from gpuaas.domains.notifications.words import Words
from gpuaas.infra.postgres.tx import Tx, decode, decode_all
from gpuaas.kit.errors import Missing
from gpuaas.kit.ids import NotificationId

# Whoever was told of this event before is not told again, nor mailed.
TELL = """
WITH told AS (
    INSERT INTO notifications (id, user_id, org_id, event_id, kind, severity, title, body, subject_id, link_id)
    SELECT t.id, t.user_id, $1, $2, $3, $4, $5, $6, $7, t.link_id
    FROM unnest($8::uuid[], $9::uuid[], $10::uuid[]) AS t (id, user_id, link_id)
    ON CONFLICT ON CONSTRAINT notifications_once DO NOTHING RETURNING id, user_id
)
INSERT INTO emails (id, user_id, org_id, notification_id, kind, to_address, content, state, due_at, last_error)
SELECT m.id, told.user_id, $1, told.id, $3, m.to_address, m.content,
    CASE WHEN m.unusable = '' THEN 'queued' ELSE 'failed' END,
    CASE WHEN m.unusable = '' THEN now() + $16::interval END, m.unusable
FROM told JOIN unnest($11::uuid[], $12::uuid[], $13::text[], $14::jsonb[], $15::text[])
    AS m (id, notification_id, to_address, content, unusable) ON m.notification_id = told.id
"""
MAILED_SINCE = """
SELECT DISTINCT n.user_id FROM notifications n JOIN emails e ON e.notification_id = n.id
WHERE n.user_id = ANY($1) AND n.id > $2 AND n.kind = $3 AND n.subject_id = $4 AND e.state <> 'failed'
"""
LIST = """
SELECT * FROM notifications WHERE user_id = $1 AND id < $2 AND (NOT $3 OR read_at IS NULL)
    AND ($4::text IS NULL OR kind = $4)
ORDER BY id DESC LIMIT $5
"""
COUNT = "SELECT count(*) FROM (SELECT FROM notifications WHERE user_id = $1 AND read_at IS NULL LIMIT $2) AS unread"
READ = """
UPDATE notifications SET read_at = coalesce(read_at, now()) WHERE user_id = $1 AND id = $2 RETURNING *
"""
READ_ALL = "UPDATE notifications SET read_at = now() WHERE user_id = $1 AND read_at IS NULL"
PRUNE = """
DELETE FROM notifications WHERE id IN (
    SELECT id FROM notifications WHERE id < $1 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)
"""


async def mailed_since(tx: Tx, users: Sequence[UUID], since: UUID, kind: Kind, subject_id: UUID | None) -> set[UUID]:
    """Who of these was mailed of this thing in this kind, since an id of that time."""
    return {row["user_id"] for row in await tx.rows(MAILED_SINCE, list(users), since, kind.name, subject_id)}


async def tell(tx: Tx, kind: Kind, words: Words, envelope: Envelope, told: Sequence[Told]) -> None:
    mailed = [one for one in told if one.email_id is not None]
    await tx.run(
        TELL,
        envelope.org_id,
        envelope.id,
        kind.name,
        kind.severity,
        words.title,
        words.body,
        envelope.subject_id,
        [one.notification_id for one in told],
        [one.user_id for one in told],
        [one.link_id for one in told],
        [one.email_id for one in mailed],
        [one.notification_id for one in mailed],
        [one.to_address for one in mailed],
        [one.content for one in mailed],
        [one.unusable for one in mailed],
        LASTS,
    )


async def list_of(
    tx: Tx, user_id: UUID, *, before: UUID, unread: bool, kind: str | None, limit: int
) -> list[Notification]:
    return decode_all(Notification, await tx.rows(LIST, user_id, before, unread, kind, limit))


async def count(tx: Tx, user_id: UUID, *, at_most: int) -> int:
    return int(await tx.value(COUNT, user_id, at_most))


async def read(tx: Tx, user_id: UUID, notification_id: NotificationId) -> Notification:
    row = await tx.row(READ, user_id, notification_id)
    if row is None:
        raise Missing(Code.NOTIFICATION_MISSING, "You have no such notification.")
    return decode(Notification, row)


async def read_all(tx: Tx, user_id: UUID) -> int:
    return await tx.run(READ_ALL, user_id)


async def prune(tx: Tx, *, before: UUID, limit: int) -> int:
    return await tx.run(PRUNE, before, limit)
