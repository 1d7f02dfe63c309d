"""A data key is replaced when it is old, and what older ones have sealed is sealed anew."""

from uuid import UUID

from gpuaas.domains.allocations.connections.service import accounts_reseal
from gpuaas.domains.allocations.sealing import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import NIL, PLATFORM, Sight
from gpuaas.infra.sealing import FieldSealer
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader


@timer("allocations.data_key_age", every_seconds=3600)
async def data_key_age(parts: Parts) -> None:
    policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    days = policy.number("security.data_key_days")
    async with parts.get(Database).transaction(Sight(PLATFORM), "system:allocations.data_key_age") as tx:
        await service.data_key_rotate_old(tx, parts.get(FieldSealer), days=days)


@timer("allocations.reseal", every_seconds=60)
async def connections_reseal(parts: Parts) -> None:
    """After a rotation of the data keys nothing stays sealed with the old one."""
    after: UUID | None = NIL
    while after is not None:
        async with parts.get(Database).transaction(Sight(PLATFORM), "system:allocations.reseal") as tx:
            after = await accounts_reseal(tx, parts.get(FieldSealer), after=after)
