"""Holds on money whose time is over."""

from gpuaas.domains.billing.ledger import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.parts import Parts

MAX_BATCHES = 100  # then the timer's next run goes on


@timer("billing.holds_expire", every_seconds=5)
async def holds_expire(parts: Parts) -> None:
    for _ in range(MAX_BATCHES):
        async with parts.get(Database).transaction(Sight(PLATFORM), "system:billing.holds_expire") as tx:
            if await service.holds_expire(tx) < service.EXPIRE_BATCH:
                return
