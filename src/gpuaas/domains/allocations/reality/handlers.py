"""The sweep, each minute; and what was found and is gone for long is forgotten."""

from datetime import timedelta
from uuid import UUID

from prometheus_client import Gauge

from gpuaas.domains.allocations.reality import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit import clock, log
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader

PRUNED = 1_000
OPEN = Gauge("gpuaas_orphans_open", "Differences between what agents observe and the books, seen in two sweeps.")


@timer("allocations.reality", every_seconds=service.SWEEP_SECONDS, deadline_seconds=50)
async def reality_sweep(parts: Parts) -> None:
    """What agents observe against the books, both ways."""
    policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    db, after = parts.get(Database), UUID(int=0)
    while True:
        async with db.transaction(Sight(PLATFORM), "system:allocations.reality") as tx:
            going_on = await service.sweep(tx, lease_seconds=policy.number("nodes.lease_seconds"), after=after)
        if going_on is None:
            break
        after = going_on
    async with db.read(Sight(PLATFORM)) as tx:
        found = await service.orphans_open(tx)
    OPEN.set(found)
    if found:
        log.get_logger().warning("agents observe what the books do not say", differences=found)


@timer("allocations.orphan_retention", every_seconds=3600, deadline_seconds=300)
async def orphans_prune(parts: Parts) -> None:
    policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    before = clock.now() - timedelta(days=policy.number("retention.flow_days"))
    while True:
        async with parts.get(Database).transaction(Sight(PLATFORM), "system:allocations.orphan_retention") as tx:
            if await service.orphans_prune(tx, before=before, limit=PRUNED) < PRUNED:
                return
