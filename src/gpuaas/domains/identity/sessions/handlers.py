"""What sessions do by themselves: forget logins never finished, refresh tokens long spent, and revocations that have
outlived what they revoke."""

from gpuaas.domains.identity.sessions import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Sight
from gpuaas.kit.parts import Parts


@timer("identity.sessions_tidy", every_seconds=60)
async def sessions_tidy(parts: Parts) -> None:
    async with parts.get(Database).transaction(Sight(), "system:identity") as tx:
        await service.tidy(tx)
