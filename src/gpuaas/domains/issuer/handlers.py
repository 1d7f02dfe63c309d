"""What the issuer does by itself: log out whom the platform disabled, and forget what has expired."""

from uuid import UUID

from gpuaas.contracts.events.base import Envelope
from gpuaas.contracts.events.platform import UserDisabled
from gpuaas.contracts.tokens import BUILT_IN
from gpuaas.domains.issuer import service
from gpuaas.infra.events import reaction, timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Sight, Tx
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader


@reaction("issuer.sessions_end", to=UserDisabled)
async def sessions_end(tx: Tx, event: UserDisabled, envelope: Envelope) -> None:
    """Subjects of other issuers are theirs to log out; ours are account ids."""
    if event.issuer == BUILT_IN:
        await service.all_end(tx, UUID(event.subject), "user disabled")


@timer("issuer.prune", every_seconds=60)
async def prune(parts: Parts) -> None:
    policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    days = policy.number("issuer.refresh_token_days")
    async with parts.get(Database).transaction(Sight(), service.SYSTEM) as tx:
        await service.expired_prune(tx, refresh_token_days=days)
