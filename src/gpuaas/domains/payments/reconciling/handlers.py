"""The scheduled comparison with the provider, and what is not kept of it."""

from datetime import timedelta

from gpuaas.domains.payments.reconciling import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.parts import Parts
from gpuaas.ports.payments import PaymentProvider
from gpuaas.ports.policy import PolicyReader

PRUNED = 1_000


@timer("payments.reconcile", every_seconds=300, deadline_seconds=240)
async def payments_reconcile(parts: Parts) -> None:
    provider = parts.get(PaymentProvider)  # type: ignore[type-abstract] # the part is whatever implements it
    if provider.name != "none":
        await service.payments_reconcile(parts.get(Database), provider)


@timer("payments.statements_retention", every_seconds=3600, deadline_seconds=300)
async def statements_prune(parts: Parts) -> None:
    policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    for prune, key in (
        (service.statements_prune, "retention.payment_statement_days"),
        (service.reports_prune, "retention.webhook_days"),
    ):
        older, pruned = timedelta(days=policy.number(key)), PRUNED
        while pruned == PRUNED:
            async with parts.get(Database).transaction(Sight(PLATFORM), "system:payments.statements_retention") as tx:
                pruned = await prune(tx, older=older, limit=PRUNED)
