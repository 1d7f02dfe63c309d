"""SQL of logins, refresh tokens being spent, the deny-list and the break-glass mark. None of these has a tenant, so the
single statements that must hold before the network is used run by themselves."""

from datetime import datetime

from gpuaas.domains.identity.sessions.models import LoginState, Revocation
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Tx, decode

START = """
INSERT INTO login_states (state_hash, code_verifier, nonce, redirect_uri, expires_at) VALUES ($1, $2, $3, $4, $5)
"""
TAKE = """
DELETE FROM login_states WHERE state_hash = $1 AND expires_at > now() RETURNING code_verifier, nonce, redirect_uri
"""
CLAIM_REFRESH = """
INSERT INTO refresh_claims AS c (token_hash, expires_at) VALUES ($1, now() + interval '30 seconds')
ON CONFLICT (token_hash) DO UPDATE SET expires_at = excluded.expires_at WHERE c.expires_at <= now()
RETURNING true
"""
RELEASE_REFRESH = "DELETE FROM refresh_claims WHERE token_hash = $1 RETURNING true"
REVOKE = """
INSERT INTO revoked_credentials AS r (credential_id, reason, expires_at) VALUES ($1, $2, $3)
ON CONFLICT (credential_id) DO UPDATE SET expires_at = greatest(r.expires_at, excluded.expires_at)
RETURNING *
"""
# Tells every replica to read the issuer's keys again; no row: somebody did so a moment ago.
MARK_KEYS = """
INSERT INTO issuer_key_marks AS m (marked_at) VALUES (now())
ON CONFLICT (single) DO UPDATE SET marked_at = now() WHERE m.marked_at < now() - $1 * interval '1 second'
RETURNING marked_at
"""
MARK_KEYS_NOW = """
INSERT INTO issuer_key_marks (marked_at) VALUES (clock_timestamp())
ON CONFLICT (single) DO UPDATE SET marked_at = excluded.marked_at
"""
TIDY = """
WITH gone_states AS (DELETE FROM login_states WHERE expires_at < now()),
    gone_claims AS (DELETE FROM refresh_claims WHERE expires_at < now())
DELETE FROM revoked_credentials WHERE expires_at < now() - interval '1 day'
"""


async def start(tx: Tx, state_hash: bytes, login: LoginState, expires_at: datetime) -> None:
    await tx.run(START, state_hash, login.code_verifier, login.nonce, login.redirect_uri, expires_at)


async def take(db: Database, state_hash: bytes) -> LoginState | None:
    """The login of a state, once: it is gone afterwards, whatever comes of it."""
    row = await db.statement(TAKE, state_hash)
    return None if row is None else decode(LoginState, row)


async def claim_refresh(db: Database, token_hash: bytes) -> bool:
    return await db.statement(CLAIM_REFRESH, token_hash) is not None


async def release_refresh(db: Database, token_hash: bytes) -> None:
    await db.statement(RELEASE_REFRESH, token_hash)


async def revoke(tx: Tx, credential_id: str, *, reason: str, expires_at: datetime) -> Revocation:
    row = await tx.row(REVOKE, credential_id, reason, expires_at)
    if row is None:
        raise LookupError("the statement always has a row")
    return decode(Revocation, row)


async def mark_keys(db: Database, *, apart_seconds: float) -> datetime | None:
    row = await db.statement(MARK_KEYS, apart_seconds)
    return None if row is None else row["marked_at"]


async def mark_keys_now(tx: Tx) -> None:
    await tx.run(MARK_KEYS_NOW)


async def tidy(tx: Tx) -> None:
    await tx.run(TIDY)
