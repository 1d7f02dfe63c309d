"""Proposals nobody decided in time."""

from gpuaas.domains.billing.adjustments import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.parts import Parts


@timer("billing.proposals_expire", every_seconds=30)
async def proposals_expire(parts: Parts) -> None:
    async with parts.get(Database).transaction(Sight(PLATFORM), "system:billing.proposals_expire") as tx:
        await service.proposals_expire(tx)
