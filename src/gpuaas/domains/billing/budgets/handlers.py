"""The pass that looks what projects spent of their budgets."""

from prometheus_client import Counter

from gpuaas.domains.billing.budgets import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader

TOLD = Counter("gpuaas_budget_marks_told", "Marks of budgets that were reached and told.")


@timer("billing.budgets", every_seconds=15, deadline_seconds=120)
async def budgets_follow(parts: Parts) -> None:
    policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    TOLD.inc(await service.follow(parts.get(Database), policy))
