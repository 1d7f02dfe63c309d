"""Metrics do not stay for ever: days are made ahead, and dropped whole."""

from datetime import timedelta

from gpuaas.domains.nodes.metrics import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit import clock, log
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader

DAYS_AHEAD = 7
# The database refuses to drop younger days, whatever it is told.
YOUNGEST_DROPPED = timedelta(days=1, minutes=1)
_NAME = "system:nodes.metrics_retention"


@timer("nodes.metrics_retention", every_seconds=3600, deadline_seconds=300)
async def metrics_prune(parts: Parts) -> None:
    policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    days = policy.number("retention.node_metrics_days")
    before, db = clock.now() - timedelta(days=days), parts.get(Database)
    async with db.transaction(Sight(PLATFORM), _NAME) as tx:
        await service.days_make(tx, first=before, days=days + DAYS_AHEAD)
    async with db.transaction(Sight(PLATFORM), _NAME) as tx:
        dropped = await service.days_drop(tx, before=min(before, clock.now() - YOUNGEST_DROPPED))
    if dropped:
        log.get_logger().info("days of metrics dropped", days=dropped)
