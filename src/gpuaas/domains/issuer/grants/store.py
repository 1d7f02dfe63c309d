"""SQL of codes, families and tokens.

Whoever mints for a family or ends it takes the family's row first, so no token slips out beside a revocation; a code
and a refresh token are used by one statement that finds them unused."""

from datetime import datetime
from uuid import UUID

from gpuaas.domains.issuer.grants.models import Code, Family, FamilyId, RefreshToken
from gpuaas.infra.postgres.tx import Tx, decode
from gpuaas.kit.ids import new_id

_CODE = """client_id, redirect_uri, account_id, session_id, scopes, nonce, code_challenge, auth_time, used_at,
           family_id"""
_FAMILY = "id, account_id, client_id, session_id, scopes, auth_time, expires_at"
ADD_CODE = """
INSERT INTO issuer_codes (code_hash, client_id, redirect_uri, account_id, session_id, scopes, nonce, code_challenge,
                          auth_time, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, now() + $10 * interval '1 second')
"""
USE_CODE = f"""
UPDATE issuer_codes SET used_at = now(), family_id = $3
WHERE code_hash = $1 AND client_id = $2 AND used_at IS NULL AND expires_at > now() RETURNING {_CODE}
"""  # noqa: S608 # our own columns
USED_CODE = f"""
SELECT {_CODE} FROM issuer_codes WHERE code_hash = $1 AND client_id = $2 AND used_at IS NOT NULL
"""  # noqa: S608 # our own columns
ADD_FAMILY = f"""
INSERT INTO issuer_families (id, account_id, client_id, session_id, scopes, auth_time, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, now() + $7 * interval '1 day') RETURNING {_FAMILY}
"""  # noqa: S608 # our own columns
TOUCH_FAMILY = f"""
UPDATE issuer_families SET expires_at = now() + $2 * interval '1 day'
WHERE id = $1 AND ended_at IS NULL AND expires_at > now() RETURNING {_FAMILY}
"""  # noqa: S608 # our own columns
END_FAMILY = """
UPDATE issuer_families SET ended_at = now(), end_reason = $2 WHERE id = $1 AND ended_at IS NULL RETURNING true
"""
OF_ACCOUNT = """
SELECT id FROM issuer_families WHERE account_id = $1 AND ended_at IS NULL AND ($2::uuid IS NULL OR id <> $2) ORDER BY id
"""
# A family that may work while nobody is there outlives the browser's session.
OF_SESSION = """
SELECT id FROM issuer_families WHERE session_id = $1 AND ended_at IS NULL AND NOT 'offline_access' = ANY(scopes)
ORDER BY id
"""
LIVE_TOKENS = """
UPDATE issuer_access_tokens SET revoked_at = now()
WHERE family_id = $1 AND revoked_at IS NULL AND expires_at > now() RETURNING jti, expires_at
"""
REVOKE_ONE = """
UPDATE issuer_access_tokens SET revoked_at = now() WHERE jti = $1 AND revoked_at IS NULL RETURNING jti
"""
ADD_REFRESH = "INSERT INTO issuer_refresh_tokens (token_hash, family_id) VALUES ($1, $2)"
FIND_REFRESH = """
SELECT t.family_id, f.client_id, f.scopes,
       t.used_at IS NOT NULL AND t.used_at > clock_timestamp() - $2 * interval '1 second' AS just_used,
       s.used_at IS NOT NULL AS successor_used
FROM issuer_refresh_tokens t JOIN issuer_families f ON f.id = t.family_id
LEFT JOIN issuer_refresh_tokens s ON s.token_hash = t.successor
WHERE t.token_hash = $1
"""
SPEND_REFRESH = """
UPDATE issuer_refresh_tokens SET used_at = clock_timestamp(), successor = $2
WHERE token_hash = $1 AND used_at IS NULL RETURNING true
"""
ADD_ACCESS = "INSERT INTO issuer_access_tokens (jti, family_id, expires_at) VALUES ($1, $2, $3)"
LIVE_FAMILY_OF = f"""
SELECT {_FAMILY} FROM issuer_families WHERE ended_at IS NULL AND id =
    (SELECT family_id FROM issuer_access_tokens WHERE jti = $1 AND revoked_at IS NULL AND expires_at > now())
"""  # noqa: S608 # our own columns
PRUNE = (
    "DELETE FROM issuer_codes WHERE expires_at < now() - interval '1 day'",
    "DELETE FROM issuer_access_tokens WHERE expires_at < now() - interval '1 hour'",
    "DELETE FROM issuer_families WHERE expires_at < now() OR ended_at < now() - interval '7 days'",
)
# A spent token is kept to see its reuse for as long as a session may lie unused: whoever held it as his newest would
# have lost his session by then. Later it is not known any more, and gives nothing, as before.
PRUNE_SPENT = """
DELETE FROM issuer_refresh_tokens WHERE token_hash IN
    (SELECT token_hash FROM issuer_refresh_tokens WHERE used_at < now() - $1 * interval '1 day' LIMIT $2)
"""
MAX_SPENT = 20_000


async def add_code(tx: Tx, code_hash: bytes, code: Code, *, seconds: int) -> None:
    await tx.run(
        ADD_CODE,
        code_hash,
        code.client_id,
        code.redirect_uri,
        code.account_id,
        code.session_id,
        code.scopes,
        code.nonce,
        code.code_challenge,
        code.auth_time,
        seconds,
    )


async def use_code(tx: Tx, code_hash: bytes, client_id: str, family_id: FamilyId) -> Code | None:
    row = await tx.row(USE_CODE, code_hash, client_id, family_id)
    return None if row is None else decode(Code, row)


async def used_code(tx: Tx, code_hash: bytes, client_id: str) -> Code | None:
    row = await tx.row(USED_CODE, code_hash, client_id)
    return None if row is None else decode(Code, row)


async def add_family(
    tx: Tx,
    family_id: FamilyId,
    *,
    account_id: UUID,
    client_id: str,
    session_id: UUID | None,
    scopes: list[str],
    auth_time: datetime,
    days: int,
) -> Family:
    row = await tx.row(ADD_FAMILY, family_id, account_id, client_id, session_id, scopes, auth_time, days)
    assert row is not None  # noqa: S101 # INSERT … RETURNING answers or raises
    return decode(Family, row)


async def touch_family(tx: Tx, family_id: UUID, days: int) -> Family | None:
    row = await tx.row(TOUCH_FAMILY, family_id, days)
    return None if row is None else decode(Family, row)


async def end_family(tx: Tx, family_id: UUID, reason: str) -> bool:
    return await tx.value(END_FAMILY, family_id, reason) is not None


async def families_of_account(tx: Tx, account_id: UUID, *, except_id: UUID | None) -> list[UUID]:
    return [row["id"] for row in await tx.rows(OF_ACCOUNT, account_id, except_id)]


async def families_of_session(tx: Tx, session_id: UUID) -> list[UUID]:
    return [row["id"] for row in await tx.rows(OF_SESSION, session_id)]


async def revoke_live_tokens(tx: Tx, family_id: UUID) -> list[tuple[str, datetime]]:
    return [(row["jti"], row["expires_at"]) for row in await tx.rows(LIVE_TOKENS, family_id)]


async def revoke_token(tx: Tx, jti: str) -> None:
    await tx.run(REVOKE_ONE, jti)


async def add_refresh(tx: Tx, token_hash: bytes, family_id: UUID) -> None:
    await tx.run(ADD_REFRESH, token_hash, family_id)


async def find_refresh(tx: Tx, token_hash: bytes, grace_seconds: int) -> RefreshToken | None:
    row = await tx.row(FIND_REFRESH, token_hash, grace_seconds)
    return None if row is None else decode(RefreshToken, row)


async def spend_refresh(tx: Tx, token_hash: bytes, successor: bytes) -> bool:
    return await tx.value(SPEND_REFRESH, token_hash, successor) is not None


async def add_access(tx: Tx, jti: str, family_id: UUID, expires_at: datetime) -> None:
    await tx.run(ADD_ACCESS, jti, family_id, expires_at)


async def live_family_of(tx: Tx, jti: str) -> Family | None:
    row = await tx.row(LIVE_FAMILY_OF, jti)
    return None if row is None else decode(Family, row)


async def prune(tx: Tx, *, spent_days: int) -> int:
    return sum([await tx.run(statement) for statement in PRUNE]) + await tx.run(PRUNE_SPENT, spent_days, MAX_SPENT)


def new_family_id() -> FamilyId:
    return FamilyId(new_id())
