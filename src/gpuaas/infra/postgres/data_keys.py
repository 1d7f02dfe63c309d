"""The table of data keys. One is current; the others open what they sealed until it has been sealed anew."""

from uuid import UUID

from gpuaas.infra.postgres.tx import Tx

CURRENT = "SELECT id, sealed FROM data_keys WHERE retired_at IS NULL"
GET = "SELECT sealed FROM data_keys WHERE id = $1"
OLDER = (
    "SELECT EXISTS (SELECT FROM data_keys WHERE retired_at IS NULL AND created_at < now() - make_interval(days => $1))"
)
RETIRE = "UPDATE data_keys SET retired_at = now() WHERE retired_at IS NULL"
# Two programs that find no key at once: one makes it, the other reads it.
ADD = "INSERT INTO data_keys (id, sealed) VALUES ($1, $2) ON CONFLICT ((true)) WHERE retired_at IS NULL DO NOTHING"


async def current(tx: Tx) -> tuple[UUID, bytes] | None:
    row = await tx.row(CURRENT)
    return None if row is None else (row["id"], row["sealed"])


async def sealed_key(tx: Tx, key_id: UUID) -> bytes | None:
    found: bytes | None = await tx.value(GET, key_id)
    return found


async def add(tx: Tx, key_id: UUID, sealed: bytes) -> bool:
    return await tx.run(ADD, key_id, sealed) > 0


async def retire(tx: Tx) -> None:
    await tx.run(RETIRE)


async def current_is_older(tx: Tx, days: int) -> bool:
    return bool(await tx.value(OLDER, days))
