"""Refunds nobody decided on, or made, in time."""

from gpuaas.domains.payments.refunds import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.parts import Parts


@timer("payments.refunds_end_due", every_seconds=30)
async def refunds_end_due(parts: Parts) -> None:
    async with parts.get(Database).transaction(Sight(PLATFORM), "system:payments.refunds_end_due") as tx:
        await service.refunds_end_due(tx)
