"""SQL of SSH public keys. A user's are seen by himself alone."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.domains.identity.ssh_keys.models import SshKey
from gpuaas.infra.postgres.tx import Row, Tx, conflicts, decode, decode_all
from gpuaas.kit.errors import Missing
from gpuaas.kit.ids import SshKeyId, UserId

LIST = "SELECT * FROM ssh_keys WHERE user_id = $1 AND id > $2 ORDER BY id LIMIT $3"
# Two keys added at once are counted one after the other.
LOCK_USER = "SELECT id FROM users WHERE id = $1 FOR NO KEY UPDATE"
COUNT = "SELECT count(*) FROM ssh_keys WHERE user_id = $1"
INSERT = """
INSERT INTO ssh_keys (id, user_id, name, algorithm, public_key, fingerprint) VALUES ($1, $2, $3, $4, $5, $6) RETURNING *
"""
DELETE = "DELETE FROM ssh_keys WHERE user_id = $1 AND id = $2 RETURNING *"


async def list_of_user(tx: Tx, user_id: UserId, *, after: UUID, limit: int) -> list[SshKey]:
    return decode_all(SshKey, await tx.rows(LIST, user_id, after, limit))


async def count_locked(tx: Tx, user_id: UserId) -> int:
    await tx.run(LOCK_USER, user_id)
    return int(await tx.value(COUNT, user_id))


async def insert(
    tx: Tx, key_id: SshKeyId, user_id: UserId, *, name: str, algorithm: str, public_key: str, fingerprint: str
) -> SshKey:
    with conflicts({"ssh_keys_user_id_fingerprint_key": Code.SSH_KEY_EXISTS}):
        return _found(await tx.row(INSERT, key_id, user_id, name, algorithm, public_key, fingerprint))


async def delete(tx: Tx, user_id: UserId, key_id: SshKeyId) -> None:
    _found(await tx.row(DELETE, user_id, key_id))


def _found(row: Row | None) -> SshKey:
    if row is None:
        raise Missing(Code.SSH_KEY_MISSING, "You have no such SSH key.")
    return decode(SshKey, row)
