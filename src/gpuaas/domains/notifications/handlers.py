"""What makes notifications, and what forgets them."""

from datetime import timedelta

from gpuaas.contracts.events.base import Envelope, Event
from gpuaas.contracts.events.platform import MemberRemoved
from gpuaas.domains.notifications import service
from gpuaas.domains.notifications.catalogue import EVENTS
from gpuaas.domains.notifications.mail import service as mail
from gpuaas.infra.events import reaction, timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit import clock
from gpuaas.kit.ids import floor_id
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader

NEWS = timedelta(hours=24)
"""What happened longer ago is not mailed: after a long standstill nobody is flooded with what is over."""
PRUNED = 1_000


@reaction("notifications.notify", to=EVENTS)
async def notify(tx: Tx, event: Event, envelope: Envelope, parts: Parts) -> None:
    fresh = clock.now() - envelope.occurred_at < NEWS
    await service.notify(tx, _policy(parts), event, envelope, fresh=fresh)


@reaction("notifications.left", to=MemberRemoved)
async def left(tx: Tx, event: MemberRemoved, envelope: Envelope) -> None:
    """Who has left an organisation gets no mail about it that still waits."""
    if envelope.org_id is not None and event.project_id is None:
        await tx.enter_platform()
        await mail.emails_left(tx, envelope.org_id, event.user_id)


@timer("notifications.retention", every_seconds=3600, deadline_seconds=300)
async def notifications_prune(parts: Parts) -> None:
    before = floor_id(clock.now() - timedelta(days=_policy(parts).number("retention.notification_days")))
    while True:
        async with parts.get(Database).transaction(Sight(PLATFORM), "system:notifications.retention") as tx:
            if await service.notifications_prune(tx, before=before, limit=PRUNED) < PRUNED:
                return


def _policy(parts: Parts) -> PolicyReader:
    return parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
