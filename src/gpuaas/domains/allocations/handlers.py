"""What runs by itself around allocations."""

from uuid import UUID

from gpuaas.domains.allocations.connections.service import accounts_reseal
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import NIL, PLATFORM, Sight
from gpuaas.infra.sealing import FieldSealer
from gpuaas.kit.parts import Parts


@timer("allocations.reseal", every_seconds=60)
async def connections_reseal(parts: Parts) -> None:
    """After a rotation of the data keys nothing stays sealed with the old one."""
    after: UUID | None = NIL
    while after is not None:
        async with parts.get(Database).transaction(Sight(PLATFORM), "system:allocations.reseal") as tx:
            after = await accounts_reseal(tx, parts.get(FieldSealer), after=after)
