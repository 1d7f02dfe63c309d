"""How to log in on an allocation's nodes: sealed at rest, opened for those who may use it, sealed anew after a rotation
of the data keys."""

from uuid import UUID

import msgspec

from gpuaas.domains.allocations import service
from gpuaas.domains.allocations.models import Account, Allocation
from gpuaas.infra.postgres.tx import NIL, Tx
from gpuaas.infra.sealing import FieldSealer

AT_ONCE = 200


def bound_to(allocation_id: UUID) -> str:
    return f"allocations.connection:{allocation_id}"


async def accounts_keep(tx: Tx, sealer: FieldSealer, allocation: Allocation, accounts: list[Account]) -> None:
    sealed = await sealer.seal(tx, msgspec.json.encode(accounts), bound_to(allocation.id))
    await service.keep_connection(tx, allocation.id, sealed)


async def accounts_of(tx: Tx, sealer: FieldSealer, allocation: Allocation) -> list[Account]:
    if allocation.connection_sealed is None:
        return []
    plain = await sealer.unseal(tx, allocation.connection_sealed, bound_to(allocation.id))
    return msgspec.json.decode(plain, type=list[Account])


async def accounts_reseal(tx: Tx, sealer: FieldSealer) -> int:
    """Seal with the current key what an older one sealed, a batch at a time; how many that were."""
    found = await service.sealed_by_others(tx, await sealer.current_id(tx), after=NIL, limit=AT_ONCE)
    for allocation_id, old in found:
        plain = await sealer.unseal(tx, old, bound_to(allocation_id))
        await service.reseal(tx, allocation_id, old, await sealer.seal(tx, plain, bound_to(allocation_id)))
    return len(found)
