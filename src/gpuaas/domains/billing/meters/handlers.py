"""The pass that charges for what is used. Looking costs little; how often it charges, a policy says."""

from prometheus_client import Counter

from gpuaas.domains.billing.meters import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader

POSTED = Counter("gpuaas_usage_posted", "Rows of usage that were charged or credited.")


@timer("billing.accrue", every_seconds=5, deadline_seconds=300)
async def usage_accrue(parts: Parts) -> None:
    policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    seconds = policy.number("billing.window_seconds")
    POSTED.inc(await service.accrue(parts.get(Database), window_seconds=seconds))
