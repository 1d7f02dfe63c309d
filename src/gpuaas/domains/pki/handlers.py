"""What the authority does by itself: forget what has ended long ago."""

from gpuaas.domains.pki import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader


@timer("pki.prune", every_seconds=3600)
async def prune(parts: Parts) -> None:
    policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    days = policy.number("retention.certificate_days")
    async with parts.get(Database).transaction(Sight(PLATFORM), "system:pki") as tx:
        await service.expired_prune(tx, days)
