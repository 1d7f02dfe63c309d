"""SQL of sessions."""

from uuid import UUID

from gpuaas.domains.issuer.sessions.models import Session
from gpuaas.infra.postgres.tx import Tx, decode
from gpuaas.kit.ids import new_id

_COLUMNS = "id, account_id, auth_time, expires_at"
LIVE = f"""
SELECT {_COLUMNS} FROM issuer_sessions WHERE token_hash = $1 AND ended_at IS NULL AND expires_at > now()
"""  # noqa: S608 # our own columns
# Whoever ends the session waits until what follows from it is written, and then finds it.
HOLD = "SELECT true FROM issuer_sessions WHERE id = $1 AND ended_at IS NULL FOR SHARE"
ADD = f"""
INSERT INTO issuer_sessions (id, token_hash, account_id, expires_at)
VALUES ($1, $2, $3, now() + $4 * interval '1 second') RETURNING {_COLUMNS}
"""  # noqa: S608 # our own columns
RENEW = f"""
UPDATE issuer_sessions SET token_hash = $2, auth_time = now(), expires_at = now() + $3 * interval '1 second'
WHERE id = $1 AND ended_at IS NULL RETURNING {_COLUMNS}
"""  # noqa: S608 # our own columns
END = "UPDATE issuer_sessions SET ended_at = now() WHERE id = $1 AND ended_at IS NULL"
END_OF_ACCOUNT = """
UPDATE issuer_sessions SET ended_at = now()
WHERE account_id = $1 AND ended_at IS NULL AND ($2::uuid IS NULL OR id <> $2)
"""
PRUNE = "DELETE FROM issuer_sessions WHERE expires_at < now() OR ended_at < now() - interval '1 day'"


async def live(tx: Tx, token_hash: bytes) -> Session | None:
    row = await tx.row(LIVE, token_hash)
    return None if row is None else decode(Session, row)


async def hold(tx: Tx, session_id: UUID) -> bool:
    return bool(await tx.value(HOLD, session_id))


async def add(tx: Tx, token_hash: bytes, account_id: UUID, seconds: int) -> Session:
    row = await tx.row(ADD, new_id(), token_hash, account_id, seconds)
    assert row is not None  # noqa: S101 # INSERT … RETURNING answers or raises
    return decode(Session, row)


async def renew(tx: Tx, session_id: UUID, token_hash: bytes, seconds: int) -> Session | None:
    row = await tx.row(RENEW, session_id, token_hash, seconds)
    return None if row is None else decode(Session, row)


async def end(tx: Tx, session_id: UUID) -> None:
    await tx.run(END, session_id)


async def end_of_account(tx: Tx, account_id: UUID, *, except_id: UUID | None) -> None:
    await tx.run(END_OF_ACCOUNT, account_id, except_id)


async def prune(tx: Tx) -> int:
    return await tx.run(PRUNE)
