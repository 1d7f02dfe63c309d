"""Acting on notices, waking those that waited, and giving up on those that waited too long."""

from datetime import timedelta

from gpuaas.contracts.events.base import Envelope
from gpuaas.contracts.events.payments import PaymentSucceeded, WebhookStored
from gpuaas.domains.payments.webhooks import service
from gpuaas.infra.events import reaction, timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit import clock
from gpuaas.kit.ids import floor_id
from gpuaas.kit.parts import Parts
from gpuaas.ports.payments import PaymentProvider
from gpuaas.ports.policy import PolicyReader

PRUNED = 1_000


@reaction("payments.webhook_act", to=WebhookStored)
async def webhook_act(tx: Tx, event: WebhookStored, envelope: Envelope, parts: Parts) -> None:
    provider = parts.get(PaymentProvider)  # type: ignore[type-abstract] # the part is whatever implements it
    await service.webhook_act(tx, provider, event.webhook_id)


@reaction("payments.webhooks_wake", to=PaymentSucceeded)
async def webhooks_wake(tx: Tx, event: PaymentSucceeded, envelope: Envelope) -> None:
    await tx.enter_platform()
    await service.webhooks_wake(tx, event.payment_id)


@timer("payments.webhooks_expire", every_seconds=30)
async def webhooks_expire(parts: Parts) -> None:
    async with parts.get(Database).transaction(Sight(PLATFORM), "system:payments.webhooks_expire") as tx:
        await service.webhooks_expire(tx)


@timer("payments.webhooks_retention", every_seconds=3600, deadline_seconds=300)
async def webhooks_prune(parts: Parts) -> None:
    """Heard again after that, a notice is acted on again: what it is about did what it does once already."""
    policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    before = floor_id(clock.now() - timedelta(days=policy.number("retention.webhook_days")))
    while True:
        async with parts.get(Database).transaction(Sight(PLATFORM), "system:payments.webhooks_retention") as tx:
            if await service.webhooks_prune(tx, before=before, limit=PRUNED) < PRUNED:
                return
