"""The verbs of refunds: asked for, agreed to, set aside, done. The provider is asked by the flow payment.refund.

Always holds: not more is refunded than was paid, whoever asks at the same time; what is above the policy's limit, alone
or with what its proposer had refunded alone in the last day, is asked of the provider only when somebody else agreed;
the money is set aside before that."""

from datetime import timedelta
from uuid import UUID

from gpuaas.contracts.actor import Actor
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.payments import RefundFailed, RefundProposed
from gpuaas.contracts.http.billing import MoneyHoldState
from gpuaas.contracts.http.flows import FlowKind
from gpuaas.contracts.http.payments import RefundCreate
from gpuaas.domains.billing.adjustments import service as adjustments
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.domains.billing.ledger.models import Hold, HoldWanted
from gpuaas.domains.payments.amounts import cents_of
from gpuaas.domains.payments.checkouts import service as checkouts
from gpuaas.domains.payments.refunds import store
from gpuaas.domains.payments.refunds.models import NewRefund, Refund
from gpuaas.domains.payments.refunds.states import S
from gpuaas.domains.runs import service as runs
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit import clock
from gpuaas.kit.errors import Conflict, Denied, Refused
from gpuaas.kit.ids import PaymentId, RefundId, TransactionId, new_id
from gpuaas.kit.money import format_micros
from gpuaas.ports.payments import Refunding
from gpuaas.ports.policy import PolicyReader

HELD_FOR = timedelta(days=3)
DUE_BATCH = 100

refund_list = store.list_all


async def refund_get(tx: Tx, refund_id: UUID, *, lock: bool = False) -> Refund:
    return await store.get(tx, refund_id, lock=lock)


async def refund_create(
    tx: Tx, actor: Actor, policy: PolicyReader, payment_id: PaymentId, wanted: RefundCreate
) -> Refund:
    """Give money of a payment back, or propose to."""
    payment = await checkouts.payment_get(tx, payment_id, lock=True)
    if not checkouts.is_paid(payment) or payment.dispute in ("opened", "lost"):
        raise Conflict(Code.STATE_MOVE_REFUSED, f"The payment is {payment.state}: nothing of it can be refunded.")
    gone = payment.refunded_micros + payment.disputed_micros
    left = payment.amount_micros - gone - await store.taken(tx, payment.id)
    amount = left if wanted.amount_micros is None else wanted.amount_micros
    if not 0 < amount <= left:
        raise Refused(
            Code.REFUND_TOO_LARGE, f"Of this payment {format_micros(left, payment.currency)} can be refunded."
        )
    cents_of(amount, payment.currency)
    who, who_id = _who(actor)
    alone = await store.asked_alone(tx, who_id, payment.currency)
    made = await store.insert(
        tx,
        NewRefund(
            id=RefundId(new_id()),
            org_id=payment.org_id,
            payment_id=payment.id,
            currency=payment.currency,
            amount_micros=amount,
            reason=wanted.reason,
            proposed=amount > await adjustments.alone_micros(tx, policy, who_id) - alone,
            asked_by=who,
            asked_by_id=who_id,
        ),
    )
    if made.state is S.PROPOSED:
        event = RefundProposed(
            payment_id=payment.id, refund_id=made.id, currency=made.currency, amount_micros=made.amount_micros
        )
        tx.emit(event, subject_id=made.id, org_id=made.org_id)
    else:
        await runs.run_start(tx, FlowKind.PAYMENT_REFUND, made.id, org_id=made.org_id)
    return made


async def refund_approve(tx: Tx, actor: Actor, refund_id: RefundId, *, reason: str) -> Refund:
    proposed = await store.get(tx, refund_id, lock=True)
    if proposed.state is not S.PROPOSED:
        raise Conflict(Code.STATE_MOVE_REFUSED, f"The refund is {proposed.state} already.")
    if proposed.asked_by_id == actor.id:
        raise Denied(Code.REFUND_OWN, "Somebody else has to approve the refund you proposed.")
    for user_id in (_who(actor)[1], proposed.asked_by_id):
        await adjustments.require_settled(tx, user_id)
    agreed = await store.move(tx, refund_id, to=S.REQUESTED, by=_who(actor), decision=reason)
    await runs.run_start(tx, FlowKind.PAYMENT_REFUND, agreed.id, org_id=agreed.org_id)
    return agreed


async def refund_reject(tx: Tx, actor: Actor, refund_id: RefundId, *, reason: str) -> Refund:
    """Decide, with a reason, that it is not made. Who proposed it may take it back so."""
    await store.get(tx, refund_id)
    return await store.move(tx, refund_id, to=S.REJECTED, by=_who(actor), decision=reason)


# for the flow and for settlement -------------------------------------------------------------------------------------
async def refund_hold(tx: Tx, refund: Refund) -> Hold:
    """Set its money aside; the same one however often it is asked for."""
    wanted = HoldWanted(
        key=f"refund:{refund.id}",
        org_id=refund.org_id,
        amount_micros=refund.amount_micros,
        until=clock.now() + HELD_FOR,
        currency=refund.currency,
        subject_id=refund.payment_id,
        reason=refund.reason,
    )
    hold = await ledger.hold_take(tx, wanted)
    await store.held(tx, refund.id, hold.id)
    return hold


async def refund_unhold(tx: Tx, refund: Refund) -> None:
    if refund.hold_id is not None:
        await ledger.hold_void(tx, refund.hold_id)


async def hold_open(tx: Tx, refund: Refund | None) -> Hold | None:
    """What is set aside for it, if it still is."""
    if refund is None or refund.hold_id is None:
        return None
    hold = await ledger.hold_get(tx, refund.hold_id)
    alive = hold.state is MoneyHoldState.OPEN and hold.due_at is not None and hold.due_at > clock.now()
    return hold if alive else None


async def refund_find(tx: Tx, payment_id: PaymentId, said: Refunding) -> Refund | None:
    """The refund of ours that an object of the provider is, locked; none if it was begun there."""
    return await store.of_object(tx, payment_id, said.id, said.refund_id)


async def refund_succeeded(tx: Tx, refund: Refund, object_id: str, transaction_id: TransactionId) -> Refund:
    return await store.move(tx, refund.id, to=S.SUCCEEDED, object_id=object_id, transaction_id=transaction_id)


async def refund_failed(tx: Tx, refund: Refund, *, reason: str) -> Refund:
    """It was not made, or did not arrive; one that is known to have failed stays so."""
    if refund.state is S.FAILED:
        return refund
    return await store.move(tx, refund.id, to=S.FAILED, failure=reason)


async def refund_given_up(tx: Tx, refund: Refund, *, reason: str) -> None:
    """The flow ends without it. If the provider made it all the same, that is found by notice or list."""
    if refund.state is not S.REQUESTED:
        return
    failed = await refund_failed(tx, refund, reason=reason)
    tx.emit(
        RefundFailed(
            payment_id=failed.payment_id,
            refund_id=failed.id,
            currency=failed.currency,
            amount_micros=failed.amount_micros,
            reason=reason[:300],
        ),
        subject_id=failed.payment_id,
        org_id=failed.org_id,
    )


async def refunds_end_due(tx: Tx) -> int:
    late = await store.due(tx, DUE_BATCH)
    for refund in late:
        if refund.state is S.PROPOSED:
            await store.move(tx, refund.id, to=S.EXPIRED, failure="nobody decided in time")
        else:
            await refund_given_up(tx, refund, reason="it was not made in time")
            await refund_unhold(tx, refund)
    return len(late)


def _who(actor: Actor) -> tuple[str, UUID]:
    assert actor.id is not None  # noqa: S101 # the pipeline admits only actors with an id here
    return actor.email or actor.name, actor.id
