"""Metrics do not stay for ever."""

from datetime import timedelta

from gpuaas.domains.nodes.metrics import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit import clock
from gpuaas.kit.ids import floor_id
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader

PRUNED = 5000


@timer("nodes.metrics_retention", every_seconds=600, deadline_seconds=300)
async def metrics_prune(parts: Parts) -> None:
    policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    before = clock.now() - timedelta(days=policy.number("retention.node_metrics_days"))
    while True:
        async with parts.get(Database).transaction(Sight(PLATFORM), "system:nodes.metrics_retention") as tx:
            if await service.prune(tx, before=floor_id(before), batches_before=before, limit=PRUNED) < PRUNED:
                return
