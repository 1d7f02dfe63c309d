"""SQL of device codes, and `move`."""

from uuid import UUID

from gpuaas.domains.issuer.devices.models import DeviceCode
from gpuaas.domains.issuer.devices.states import LIFE, DeviceState
from gpuaas.domains.issuer.sessions.models import Session
from gpuaas.infra.postgres.tx import Row, Tx, decode

_COLUMNS = """user_code, client_id, scopes, requested_from, state, interval_seconds, expires_at <= now() AS expired,
              account_id, session_id, auth_time, family_id"""
ADD = """
INSERT INTO issuer_device_codes (device_hash, user_code, client_id, scopes, requested_from, state, interval_seconds,
                                 expires_at)
VALUES ($1, $2, $3, $4, $5, 'pending', $6, now() + $7 * interval '1 second') ON CONFLICT DO NOTHING RETURNING true
"""
# A poll that comes too soon makes the device wait longer.
POLL = """
UPDATE issuer_device_codes SET polled_at = clock_timestamp(),
    interval_seconds = CASE WHEN too_soon THEN least(interval_seconds + 5, 60) ELSE interval_seconds END
FROM (SELECT device_hash AS hash, coalesce(polled_at > clock_timestamp()
             - (interval_seconds - 0.5) * interval '1 second', false) AS too_soon
      FROM issuer_device_codes WHERE device_hash = $1 AND client_id = $2 FOR UPDATE) AS last
WHERE device_hash = last.hash RETURNING too_soon
"""
BY_HASH = f"SELECT {_COLUMNS} FROM issuer_device_codes WHERE device_hash = $1"  # noqa: S608 # our own columns
PENDING = f"""
SELECT {_COLUMNS} FROM issuer_device_codes WHERE user_code = $1 AND state = 'pending' AND expires_at > now()
"""  # noqa: S608 # our own columns
# What an account allowed and no device has taken yet.
TAKE_BACK = """
UPDATE issuer_device_codes SET state = $2, state_since = now() WHERE account_id = $1 AND state = 'approved'
"""
MOVE_BY_PERSON = f"""
UPDATE issuer_device_codes SET state = $2, state_since = now(), account_id = $4, session_id = $5, auth_time = $6
WHERE user_code = $1 AND state = ANY($3) AND expires_at > now() RETURNING {_COLUMNS}
"""  # noqa: S608 # our own columns
MOVE_BY_DEVICE = f"""
UPDATE issuer_device_codes SET state = $2, state_since = now(), family_id = $4
WHERE device_hash = $1 AND state = ANY($3) AND expires_at > now() RETURNING {_COLUMNS}
"""  # noqa: S608 # our own columns
PRUNE = "DELETE FROM issuer_device_codes WHERE expires_at < now() - interval '1 hour'"


async def add(
    tx: Tx,
    device_hash: bytes,
    user_code: str,
    *,
    client_id: str,
    scopes: list[str],
    requested_from: str,
    interval_seconds: int,
    seconds: int,
) -> bool:
    """False when a live code has the same letters."""
    return (
        await tx.value(ADD, device_hash, user_code, client_id, scopes, requested_from, interval_seconds, seconds)
        is not None
    )


async def poll(tx: Tx, device_hash: bytes, client_id: str) -> bool | None:
    """Whether the device polls too soon; None when there is no such code."""
    found: bool | None = await tx.value(POLL, device_hash, client_id)
    return found


async def by_hash(tx: Tx, device_hash: bytes) -> DeviceCode | None:
    return _code(await tx.row(BY_HASH, device_hash))


async def pending(tx: Tx, user_code: str) -> DeviceCode | None:
    return _code(await tx.row(PENDING, user_code))


async def move_by_person(tx: Tx, user_code: str, *, to: DeviceState, session: Session) -> DeviceCode | None:
    return _code(
        await tx.row(MOVE_BY_PERSON, user_code, to, LIFE.sources(to), session.account_id, session.id, session.auth_time)
    )


async def move_by_device(tx: Tx, device_hash: bytes, *, to: DeviceState, family_id: UUID) -> DeviceCode | None:
    return _code(await tx.row(MOVE_BY_DEVICE, device_hash, to, LIFE.sources(to), family_id))


async def take_back(tx: Tx, account_id: UUID) -> None:
    await tx.run(TAKE_BACK, account_id, DeviceState.DENIED)


async def prune(tx: Tx) -> int:
    return await tx.run(PRUNE)


def _code(row: Row | None) -> DeviceCode | None:
    return None if row is None else decode(DeviceCode, row)
