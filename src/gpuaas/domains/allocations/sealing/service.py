"""The verbs of data keys.

Always holds: one key is current; a rotation makes the next one and changes nothing that is sealed: that is sealed anew
by `allocations.reseal` within a minute, and opens before, meanwhile and after."""

from gpuaas.contracts.events.platform import DataKeyRotated
from gpuaas.domains.allocations.sealing import store
from gpuaas.domains.allocations.sealing.models import DataKey
from gpuaas.infra.postgres.tx import Tx
from gpuaas.infra.sealing import FieldSealer

MOST_KEYS = 200


async def data_key_list(tx: Tx) -> list[DataKey]:
    """Newest first."""
    return await store.keys(tx, MOST_KEYS)


async def data_key_rotate(tx: Tx, sealer: FieldSealer) -> None:
    """Seal with a new key from now on."""
    key_id = await sealer.rotate(tx)
    tx.emit(DataKeyRotated(key_id=key_id), subject_id=key_id)


async def data_key_rotate_old(tx: Tx, sealer: FieldSealer, *, days: int) -> bool:
    """The same, if the current one is older than that."""
    if not await sealer.is_older(tx, days):
        return False
    await data_key_rotate(tx, sealer)
    return True
