"""The scheduled comparison with the provider."""

from gpuaas.domains.payments.reconciling import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.parts import Parts
from gpuaas.ports.payments import PaymentProvider


@timer("payments.reconcile", every_seconds=300, deadline_seconds=240)
async def payments_reconcile(parts: Parts) -> None:
    provider = parts.get(PaymentProvider)  # type: ignore[type-abstract] # the part is whatever implements it
    if provider.name != "none":
        await service.payments_reconcile(parts.get(Database), provider)
