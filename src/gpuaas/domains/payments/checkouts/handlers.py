"""Payments nobody paid in time."""

from gpuaas.domains.payments.checkouts import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.parts import Parts


@timer("payments.end_due", every_seconds=10)
async def payments_end_due(parts: Parts) -> None:
    async with parts.get(Database).transaction(Sight(PLATFORM), "system:payments.end_due") as tx:
        await service.payments_end_due(tx)
