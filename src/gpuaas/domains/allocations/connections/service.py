"""How to log in on an allocation's nodes: sealed at rest, opened for those who may use it, sealed anew after a rotation
of the data keys."""

from uuid import UUID

import msgspec

from gpuaas.domains.allocations import service
from gpuaas.domains.allocations.models import Account, Allocation
from gpuaas.infra.postgres.tx import NIL, Tx
from gpuaas.infra.sealing import FieldSealer
from gpuaas.kit import log

AT_ONCE = 200


def bound_to(allocation_id: UUID) -> str:
    return f"allocations.connection:{allocation_id}"


async def accounts_keep(tx: Tx, sealer: FieldSealer, allocation: Allocation, accounts: list[Account]) -> None:
    sealed = await sealer.seal(tx, msgspec.json.encode(accounts), bound_to(allocation.id))
    await service.keep_connection(tx, allocation.id, sealed)


async def accounts_of(tx: Tx, sealer: FieldSealer, allocation: Allocation) -> list[Account]:
    if allocation.connection_sealed is None:
        return []
    plain = await _opened(tx, sealer, allocation.id, allocation.connection_sealed)
    return [] if plain is None else msgspec.json.decode(plain, type=list[Account])


async def accounts_reseal(tx: Tx, sealer: FieldSealer, *, after: UUID = NIL) -> UUID | None:
    """Seal with the current key what an older one sealed, a batch at a time; where to go on, None: that was all. What
    cannot be opened stays as it is, and keeps nothing else back."""
    found = await service.sealed_by_others(tx, await sealer.current_id(tx), after=after, limit=AT_ONCE)
    for allocation_id, old in found:
        plain = await _opened(tx, sealer, allocation_id, old)
        if plain is not None:
            await service.reseal(tx, allocation_id, old, await sealer.seal(tx, plain, bound_to(allocation_id)))
    return found[-1][0] if len(found) == AT_ONCE else None


async def _opened(tx: Tx, sealer: FieldSealer, allocation_id: UUID, box: bytes) -> bytes | None:
    """None: it was not sealed for this row, or with a key we do not have. The operator is told; all else is shown."""
    try:
        return await sealer.unseal(tx, box, bound_to(allocation_id))
    except ValueError as error:
        log.get_logger().error("a sealed field cannot be opened", allocation_id=str(allocation_id), reason=str(error))
        return None
