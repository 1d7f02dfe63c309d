"""The pass that looks how everybody stands."""

from prometheus_client import Counter

from gpuaas.domains.billing.standing import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader

CHANGED = Counter("gpuaas_standings_changed", "Standings that changed, or whose countdown was told.")


@timer("billing.standing", every_seconds=5, deadline_seconds=120)
async def standings_follow(parts: Parts) -> None:
    policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    CHANGED.inc(await service.follow(parts.get(Database), policy))
