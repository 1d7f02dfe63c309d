"""What follows from money that arrived."""

from gpuaas.contracts.events.base import Envelope
from gpuaas.contracts.events.payments import PaymentSucceeded
from gpuaas.domains.billing.standing import service as standings
from gpuaas.infra.events import reaction
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.ids import OrgId
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader


@reaction("payments.standing_refresh", to=PaymentSucceeded)
async def standing_refresh(tx: Tx, event: PaymentSucceeded, envelope: Envelope, parts: Parts) -> None:
    """At once: whoever has paid does not wait for the next look at everybody's balance."""
    if envelope.org_id is not None:
        policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
        await standings.refresh(tx, policy, OrgId(envelope.org_id))
