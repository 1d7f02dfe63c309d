"""The verbs of notices.

Always holds: a notice is stored once, word for word, with the event that has it acted on; it is acted on once, by a
reaction, in any order with others; what it says before its time waits for its payment."""

from uuid import UUID

from gpuaas.contracts.events.payments import WebhookStored
from gpuaas.domains.payments.checkouts import service as checkouts
from gpuaas.domains.payments.disputes import service as disputes
from gpuaas.domains.payments.settlement import service as settlement
from gpuaas.domains.payments.settlement.models import Seen, Source
from gpuaas.domains.payments.webhooks import store
from gpuaas.domains.payments.webhooks.states import S
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit.ids import new_id
from gpuaas.ports.payments import Checkout, Dispute, Notice, PaymentProvider, Refunding, Refusal

WAKE_BATCH = 200
_OPEN = frozenset({S.STORED, S.WAITING})

webhooks_expire = store.expire
webhooks_prune = store.prune


async def webhook_store(tx: Tx, notice: Notice, body: bytes) -> bool:
    """Whether it is new. Heard of again, it was stored before, and is or will be acted on."""
    webhook_id = new_id()
    if not await store.insert(tx, webhook_id, notice, body):
        return False
    tx.emit(WebhookStored(webhook_id=webhook_id), subject_id=webhook_id)
    return True


async def webhook_act(tx: Tx, provider: PaymentProvider, webhook_id: UUID) -> None:
    found = await store.lock(tx, webhook_id)
    if found is None or found.state not in _OPEN:
        return
    notice = provider.read(found.body)
    seen = {await _apply(tx, one): one for one in notice.about}
    if Seen.EARLY in seen:
        early = seen[Seen.EARLY]
        await store.move(tx, webhook_id, to=S.WAITING, detail="its payment is not paid yet", intent_id=_intent(early))
    elif Seen.DONE in seen or Seen.DIFFERS in seen:
        await store.move(tx, webhook_id, to=S.ACTED, detail=", ".join(sorted(seen)))
    else:
        await store.move(
            tx, webhook_id, to=S.IGNORED, detail="nothing of ours" if seen else f"nothing follows from {found.type}"
        )


async def _apply(tx: Tx, said: Checkout | Refunding | Dispute | Refusal) -> Seen:
    if isinstance(said, Checkout):
        return await settlement.checkout_seen(tx, said, source=Source.NOTICE)
    if isinstance(said, Refunding):
        return await settlement.refund_seen(tx, said, source=Source.NOTICE)
    if isinstance(said, Dispute):
        return await disputes.dispute_seen(tx, said, source=Source.NOTICE)
    return await settlement.refusal_seen(tx, said)


async def webhooks_wake(tx: Tx, payment_id: UUID) -> None:
    """Its payment is paid now: what waited for that is acted on."""
    payment = await checkouts.payment_find(tx, payment_id=payment_id)
    if payment is None or payment.intent_id is None:
        return
    for webhook_id in await store.waiting(tx, payment.intent_id, WAKE_BATCH):
        tx.emit(WebhookStored(webhook_id=webhook_id), subject_id=webhook_id)


def _intent(said: Checkout | Refunding | Dispute | Refusal) -> str | None:
    return said.intent_id
