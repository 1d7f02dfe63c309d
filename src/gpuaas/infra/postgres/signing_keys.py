"""The table of signing keys. Rows are added and retired, never changed or removed: an old checkpoint or token can be
checked for as long as its key's row says it is valid."""

from datetime import datetime

import msgspec

from gpuaas.infra.postgres.tx import Row, Tx

# Two programs that find no key at once must not both make one.
LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('signing_keys:' || $1, 0))"
CURRENT = """
SELECT key_id, private_sealed FROM signing_keys
WHERE purpose = $1 AND signs_from <= now() AND (signs_until IS NULL OR signs_until > now())
ORDER BY signs_from DESC, key_id LIMIT 1
"""
ALL = """
SELECT key_id, public_jwk::text AS public_jwk, signs_from, signs_until, valid_until FROM signing_keys
WHERE purpose = $1 ORDER BY signs_from DESC, key_id
"""
VALID = """
SELECT public_jwk::text AS public_jwk FROM signing_keys
WHERE purpose = $1 AND (valid_until IS NULL OR valid_until > now()) ORDER BY signs_from DESC, key_id
"""
ADD = """
INSERT INTO signing_keys (key_id, purpose, public_jwk, private_sealed, signs_from)
VALUES ($1, $2, $3::jsonb, $4, now() + $5 * interval '1 second')
"""
RETIRE = """
UPDATE signing_keys SET signs_until = now() + $2 * interval '1 second',
    valid_until = now() + ($2 + $3) * interval '1 second'
WHERE purpose = $1 AND signs_until IS NULL
"""
DISTRUST = """
UPDATE signing_keys SET signs_until = least(signs_until, now()), valid_until = now()
WHERE purpose = $1 AND (valid_until IS NULL OR valid_until > now())
"""


class StoredKey(msgspec.Struct, frozen=True, kw_only=True):
    key_id: str
    public_jwk: str
    signs_from: datetime
    signs_until: datetime | None
    valid_until: datetime | None


async def lock(tx: Tx, purpose: str) -> None:
    await tx.value(LOCK, purpose)


async def current(tx: Tx, purpose: str) -> Row | None:
    return await tx.row(CURRENT, purpose)


async def all_keys(tx: Tx, purpose: str) -> list[StoredKey]:
    return [StoredKey(**dict(row)) for row in await tx.rows(ALL, purpose)]


async def valid_jwks(tx: Tx, purpose: str) -> list[str]:
    return [row["public_jwk"] for row in await tx.rows(VALID, purpose)]


async def add(tx: Tx, purpose: str, key_id: str, public_jwk: str, private_sealed: bytes, *, lead_seconds: int) -> None:
    await tx.run(ADD, key_id, purpose, public_jwk, private_sealed, lead_seconds)


async def retire(tx: Tx, purpose: str, *, lead_seconds: int, overlap_seconds: int) -> None:
    await tx.run(RETIRE, purpose, lead_seconds, overlap_seconds)


async def distrust(tx: Tx, purpose: str) -> None:
    await tx.run(DISTRUST, purpose)
