"""SQL of emails.

Always holds: one statement writes a state, and names the states it may come from; what a sender writes of an email
names the attempt it was given with its lease, so a sender that was thought dead changes nothing."""

from datetime import timedelta
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.notifications import EmailState
from gpuaas.domains.notifications.mail.models import Email, Waiting
from gpuaas.domains.notifications.mail.states import LASTS, LIFE, S
from gpuaas.infra.postgres.tx import Row, Tx, decode, decode_all
from gpuaas.kit.errors import Conflict, Missing
from gpuaas.kit.ids import EmailId

MAX_REASON = 500
CLAIM = """
UPDATE emails e SET lease_until = now() + $2::interval, attempts = attempts + 1
FROM (SELECT id FROM emails WHERE state = 'queued' AND next_at <= now() AND due_at > now()
        AND (lease_until IS NULL OR lease_until < now())
      ORDER BY next_at, id LIMIT $1 FOR UPDATE SKIP LOCKED) AS due
WHERE e.id = due.id RETURNING e.*
"""
SENT = """
UPDATE emails SET state = 'sent', state_since = now(), due_at = NULL, lease_until = NULL, last_error = ''
WHERE id = $1 AND attempts = $2 AND state = ANY($3)
"""
FAILED = """
UPDATE emails SET state = 'failed', state_since = now(), due_at = NULL, lease_until = NULL, last_error = $4
WHERE id = $1 AND attempts = $2 AND state = ANY($3)
"""
POSTPONE = """
UPDATE emails SET next_at = now() + $3::interval, lease_until = NULL, last_error = $4
WHERE id = $1 AND attempts = $2 AND state = 'queued'
"""
EXPIRE = """
UPDATE emails SET state = 'failed', state_since = now(), due_at = NULL, lease_until = NULL,
    last_error = left(concat_ws(': ', 'not sent in time', nullif(last_error, '')), 500)
WHERE state = ANY($1) AND due_at <= now() AND (lease_until IS NULL OR lease_until < now())
"""
# What waits for somebody who has left is not his any more.
LEFT = """
UPDATE emails SET state = 'failed', state_since = now(), due_at = NULL, lease_until = NULL,
    last_error = 'he is not in the organisation any more'
WHERE user_id = $1 AND org_id = $2 AND state = ANY($3) AND due_at IS NOT NULL
"""
# What waits has a deadline, and an index: mail that ended long ago is not looked at each time.
PARK = """
UPDATE emails SET state = 'not_configured', state_since = now(), lease_until = NULL
WHERE state = ANY($1) AND due_at IS NOT NULL
"""
UNPARK = """
UPDATE emails SET state = 'queued', state_since = now(), next_at = now()
WHERE state = 'not_configured' AND due_at IS NOT NULL
"""
RETRY = """
UPDATE emails SET state = 'queued', state_since = now(), next_at = now(), due_at = now() + $3::interval,
    lease_until = NULL
WHERE id = $1 AND state = ANY($2) RETURNING *
"""
SOONER = "UPDATE emails SET next_at = least(next_at, now()) WHERE id = $1 AND state = 'queued' RETURNING *"
GET = "SELECT * FROM emails WHERE id = $1"
LIST = "SELECT * FROM emails WHERE id < $1 AND ($2::text IS NULL OR state = $2) ORDER BY id DESC LIMIT $3"
WAITING = """
SELECT count(*) FILTER (WHERE state = 'queued') AS queued,
       coalesce(extract(epoch FROM now() - min(created_at) FILTER (WHERE state = 'queued')), 0)::float8
           AS oldest_queued_seconds,
       count(*) FILTER (WHERE state = 'not_configured') AS not_configured,
       count(*) FILTER (WHERE state = 'failed' AND state_since > now() - interval '1 day') AS failed
FROM emails WHERE due_at IS NOT NULL OR (state = 'failed' AND state_since > now() - interval '1 day')
"""
PRUNE = """
DELETE FROM emails WHERE id IN (
    SELECT id FROM emails WHERE id < $1 AND due_at IS NULL ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)
"""


async def claim(tx: Tx, *, limit: int, lease: timedelta) -> list[Email]:
    return decode_all(Email, await tx.rows(CLAIM, limit, lease))


async def sent(tx: Tx, email: Email) -> bool:
    return await tx.run(SENT, email.id, email.attempts, LIFE.sources(S.SENT)) > 0


async def failed(tx: Tx, email: Email, reason: str) -> bool:
    return await tx.run(FAILED, email.id, email.attempts, LIFE.sources(S.FAILED), reason[:MAX_REASON]) > 0


async def postpone(tx: Tx, email: Email, wait: timedelta, reason: str) -> bool:
    return await tx.run(POSTPONE, email.id, email.attempts, wait, reason[:MAX_REASON]) > 0


async def expire(tx: Tx) -> int:
    return await tx.run(EXPIRE, LIFE.sources(S.FAILED))


async def left(tx: Tx, org_id: UUID, user_id: UUID) -> int:
    return await tx.run(LEFT, user_id, org_id, LIFE.sources(S.FAILED))


async def park(tx: Tx) -> int:
    return await tx.run(PARK, LIFE.sources(S.NOT_CONFIGURED))


async def unpark(tx: Tx) -> int:
    return await tx.run(UNPARK)


async def retry(tx: Tx, email_id: EmailId) -> Email:
    """What failed is queued again; what is queued is tried at once."""
    row = await tx.row(RETRY, email_id, [S.FAILED], LASTS) or await tx.row(SOONER, email_id)
    if row is None:
        found = await get(tx, email_id)
        raise Conflict(Code.STATE_MOVE_REFUSED, f"The email is {found.state}.")
    return decode(Email, row)


async def get(tx: Tx, email_id: EmailId) -> Email:
    return _found(await tx.row(GET, email_id))


async def list_all(tx: Tx, *, before: UUID, state: EmailState | None, limit: int) -> list[Email]:
    return decode_all(Email, await tx.rows(LIST, before, state, limit))


async def waiting(tx: Tx) -> Waiting:
    row = await tx.row(WAITING)
    assert row is not None  # noqa: S101 # an aggregate has a row
    return decode(Waiting, row)


async def prune(tx: Tx, *, before: UUID, limit: int) -> int:
    return await tx.run(PRUNE, before, limit)


def _found(row: Row | None) -> Email:
    if row is None:
        raise Missing(Code.EMAIL_MISSING, "There is no such email.")
    return decode(Email, row)
