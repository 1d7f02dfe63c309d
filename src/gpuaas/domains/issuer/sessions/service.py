"""Verbs about browsers' sessions.

Always holds: the cookie's value is made here at each login, never taken from the browser, and stored as a hash; a
login in a browser ends what its cookie meant before."""

from uuid import UUID

from gpuaas.domains.issuer.sessions import store
from gpuaas.domains.issuer.sessions.models import Session
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.secrets import new_token, token_hash

MAX_COOKIE = 100


async def session_get(tx: Tx, cookie: str) -> Session | None:
    """The live session of a browser, or None."""
    if not cookie or len(cookie) > MAX_COOKIE:
        return None
    return await store.live(tx, token_hash(cookie))


async def session_begin(tx: Tx, account_id: UUID, *, seconds: int, before: Session | None) -> tuple[Session, str]:
    """A login: the same person keeps the session under a new cookie, anybody else gets a new one."""
    cookie = new_token()
    if before is not None and before.account_id == account_id:
        renewed = await store.renew(tx, before.id, token_hash(cookie), seconds)
        if renewed is not None:
            return renewed, cookie
    return await store.add(tx, token_hash(cookie), account_id, seconds), cookie


async def session_hold(tx: Tx, session_id: UUID) -> bool:
    """Whether the session has not ended; it does not before this transaction does."""
    return await store.hold(tx, session_id)


async def session_end(tx: Tx, session_id: UUID) -> None:
    await store.end(tx, session_id)


async def sessions_end(tx: Tx, account_id: UUID, *, except_id: UUID | None = None) -> None:
    """All browsers of an account, but perhaps the one that asks."""
    await store.end_of_account(tx, account_id, except_id=except_id)


async def sessions_prune(tx: Tx) -> int:
    return await store.prune(tx)
