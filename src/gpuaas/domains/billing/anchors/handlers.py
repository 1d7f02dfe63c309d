"""The ledger is anchored; what is posted since the last time is what could be taken away unnoticed."""

from gpuaas.domains.billing.anchors import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.parts import Parts


@timer("billing.ledger_anchor", every_seconds=600)
async def ledger_anchor(parts: Parts) -> None:
    await service.anchor(parts.get(Database))
