"""SQL of effects: the wall that lets each object of the provider do each thing once."""

from gpuaas.domains.payments.settlement.models import Effect, Refunded
from gpuaas.infra.postgres.tx import Tx, decode

ADD = """
INSERT INTO payment_effects (object_id, effect, org_id, payment_id, currency, amount_micros, transaction_id, source)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""
HAS = "SELECT EXISTS (SELECT FROM payment_effects WHERE object_id = $1 AND effect = $2)"
REFUNDED = "SELECT amount_micros, transaction_id FROM payment_effects WHERE object_id = $1 AND effect = 'refunded'"


async def add(tx: Tx, effect: Effect) -> None:
    """The payment is locked, so that nobody adds the same meanwhile; if somebody did, all of it is taken back."""
    await tx.run(
        ADD,
        effect.object_id,
        effect.effect,
        effect.payment.org_id,
        effect.payment.id,
        effect.payment.currency,
        effect.amount_micros,
        effect.transaction_id,
        effect.source,
    )


async def has(tx: Tx, object_id: str, effect: str) -> bool:
    return bool(await tx.value(HAS, object_id, effect))


async def refunded(tx: Tx, object_id: str) -> Refunded | None:
    row = await tx.row(REFUNDED, object_id)
    return None if row is None else decode(Refunded, row)
