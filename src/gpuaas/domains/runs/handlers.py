"""What runs by itself around runs of flows: those that ended long ago are forgotten."""

from datetime import timedelta

from gpuaas.domains.runs import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit import clock
from gpuaas.kit.ids import floor_id
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader

PRUNED = 1_000


@timer("runs.retention", every_seconds=3600, deadline_seconds=300)
async def runs_prune(parts: Parts) -> None:
    policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    before = floor_id(clock.now() - timedelta(days=policy.number("retention.flow_days")))
    while True:
        async with parts.get(Database).transaction(Sight(PLATFORM), "system:runs.retention") as tx:
            if await service.run_prune(tx, before=before, limit=PRUNED) < PRUNED:
                return
