"""What the provider says of an object of its, applied to our money.

Always holds: each verb locks the payment first, then its refund, then the organisation's account, and may be told the
same thing any number of times, in any order, by notice, answer or list: each thing happens once. What differs from what
was asked for credits nothing, and is told."""

import msgspec

from gpuaas.contracts.actor import Actor, ActorKind
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.payments import (
    PaymentMismatched,
    PaymentRefunded,
    PaymentSucceeded,
    RefundFailed,
)
from gpuaas.contracts.http.billing import AccountKind, PostingKind
from gpuaas.domains.billing.adjustments import service as adjustments
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.domains.billing.ledger.models import Capture, Posted, Posting, between
from gpuaas.domains.payments.amounts import cents_of, micros_of
from gpuaas.domains.payments.checkouts import service as checkouts
from gpuaas.domains.payments.checkouts.models import Payment
from gpuaas.domains.payments.checkouts.states import LIFE, PAID, S
from gpuaas.domains.payments.refunds import service as refunds
from gpuaas.domains.payments.refunds.models import Refund
from gpuaas.domains.payments.settlement import store
from gpuaas.domains.payments.settlement.models import Effect, Refunded, Seen, Source, Taken
from gpuaas.domains.payments.settlement.standing import standing
from gpuaas.infra.postgres.finish import AuditEntry, note
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit import log
from gpuaas.kit.errors import Conflict, Denied
from gpuaas.kit.ids import PaymentId, TransactionId, new_id
from gpuaas.ports.payments import Checkout, Refunding, Refusal
from gpuaas.ports.policy import PolicyReader

effect_add = store.add
effect_has = store.has


# paid ----------------------------------------------------------------------------------------------------------------
async def checkout_seen(tx: Tx, said: Checkout, *, source: Source) -> Seen:
    payment = await checkouts.payment_find(tx, session_id=said.id, payment_id=said.payment_id)
    if payment is None:
        return Seen.UNKNOWN
    if payment.session_id not in (None, said.id):  # another page: it must not change what becomes of this one
        return Seen.DIFFERS if said.paid else Seen.UNKNOWN
    if payment.state in PAID:
        return Seen.DONE
    if said.paid:
        return await _paid(tx, payment, said, source)
    if said.failed:
        await checkouts.payment_end(tx, payment, to=S.FAILED, reason=payment.failure or "the bank refused it")
    elif said.expired:
        await checkouts.payment_end(tx, payment, to=S.EXPIRED, reason="nobody paid in time")
    else:
        known = {"session_id": said.id, "intent_id": said.intent_id}
        await checkouts.payment_learn(tx, payment, **known, failure=payment.failure)
        if not said.open:  # it is complete, in a way that takes days
            await checkouts.payment_wait(tx, payment.id)
    return Seen.DONE


async def _paid(tx: Tx, payment: Payment, said: Checkout, source: Source) -> Seen:
    if payment.state is S.FAILED_RECONCILE:
        return Seen.DIFFERS
    if (micros_of(said.cents), said.currency) != (payment.amount_micros, payment.currency):
        await _differs(tx, payment, said)
        return Seen.DIFFERS
    posted = await ledger.post(
        tx,
        Posting(
            kind=PostingKind.TOP_UP,
            key=said.id,
            org_id=payment.org_id,
            legs=between(payment.amount_micros, AccountKind.CLEARING),
            currency=payment.currency,
            subject_id=payment.id,
            reason="top-up",
        ),
    )
    done = await checkouts.payment_move(
        tx,
        payment.id,
        to=S.SUCCEEDED,
        session_id=said.id,
        intent_id=said.intent_id,
        transaction_id=posted.transaction_id,
    )
    await _credited(tx, done, posted, source)
    return Seen.DONE


async def _credited(tx: Tx, done: Payment, posted: Posted, source: Source) -> None:
    assert done.session_id is not None  # noqa: S101 # what is paid was paid on a page
    await store.add(
        tx,
        Effect(
            object_id=done.session_id,
            effect="paid",
            payment=done,
            amount_micros=done.amount_micros,
            source=source,
            transaction_id=posted.transaction_id,
        ),
    )
    tx.emit(
        PaymentSucceeded(
            payment_id=done.id,
            currency=done.currency,
            amount_micros=done.amount_micros,
            balance_micros=posted.balance_micros or 0,
        ),
        subject_id=done.id,
        org_id=done.org_id,
    )


async def payment_accept(tx: Tx, actor: Actor, policy: PolicyReader, payment_id: PaymentId, *, reason: str) -> Payment:
    """Credit what the provider took in the stead of what was asked for. Above the limit, two people have to."""
    payment = await checkouts.payment_get(tx, payment_id, lock=True)
    if payment.state is not S.FAILED_RECONCILE or not payment.taken_micros or payment.taken_session is None:
        raise Conflict(Code.STATE_MOVE_REFUSED, f"The payment is {payment.state}: there is nothing to accept.")
    cents_of(payment.taken_micros, payment.taken_currency)
    assert actor.id is not None  # noqa: S101 # the pipeline admits only actors with an id here
    limit = await adjustments.alone_micros(tx, policy, actor.id)
    if payment.taken_micros > limit or payment.accept_by_id is not None:
        if payment.accept_by_id is None:
            who = (actor.email or actor.name, actor.id)
            return await checkouts.payment_accept_proposed(tx, payment.id, who, reason)
        if payment.accept_by_id == actor.id:
            raise Denied(Code.ADJUSTMENT_OWN, "Somebody else has to accept it too.")
        for user_id in (actor.id, payment.accept_by_id):
            await adjustments.require_settled(tx, user_id)
    posted = await ledger.post(
        tx,
        Posting(
            kind=PostingKind.TOP_UP,
            key=payment.taken_session,
            org_id=payment.org_id,
            legs=between(payment.taken_micros, AccountKind.CLEARING),
            currency=payment.taken_currency,
            subject_id=payment.id,
            reason=reason,
        ),
    )
    done = await checkouts.payment_accept(tx, payment.id, posted.transaction_id)
    await _credited(tx, done, posted, Source.ANSWER)
    return done


async def _differs(tx: Tx, payment: Payment, said: Checkout) -> None:
    """Nothing is credited: whoever asked for another amount, or in another currency, is found out by a person."""
    taken = micros_of(said.cents)
    why = f"{said.id}: {payment.amount_micros} {payment.currency} were asked for, {taken} {said.currency} were taken"
    if S.FAILED_RECONCILE not in LIFE.table[payment.state].to:
        return
    moved = await checkouts.payment_move(tx, payment.id, to=S.FAILED_RECONCILE, failure=why)
    await checkouts.payment_mismatch(tx, payment.id, said, taken)
    details = {"object_id": said.id, "taken_micros": taken, "taken_currency": said.currency}
    await note(
        tx,
        AuditEntry(
            id=new_id(),
            action="payment.mismatch",
            operation="payment_settlement",
            actor_kind=ActorKind.SYSTEM,
            actor_id=None,
            actor_name=tx.actor_name,
            org_id=moved.org_id,
            project_id=None,
            subject_id=moved.id,
            correlation_id=log.correlation_id.get(),
            client_ip="",
            details=msgspec.json.encode(log.scrub(details)).decode(),
        ),
    )
    tx.emit(
        PaymentMismatched(
            payment_id=moved.id,
            object_id=said.id,
            currency=moved.currency,
            amount_micros=moved.amount_micros,
            taken_currency=said.currency,
            taken_micros=taken,
        ),
        subject_id=moved.id,
        org_id=moved.org_id,
    )


async def refusal_seen(tx: Tx, said: Refusal) -> Seen:
    """A try that the bank refused is no end: the page is open still."""
    payment = await checkouts.payment_find(tx, intent_id=said.intent_id, payment_id=said.payment_id)
    if payment is None:
        return Seen.UNKNOWN
    if payment.state in (S.CREATED, S.OPEN):
        await checkouts.payment_learn(tx, payment, session_id=None, intent_id=said.intent_id, failure=said.reason)
    return Seen.DONE


# goes back -----------------------------------------------------------------------------------------------------------
async def refund_seen(tx: Tx, said: Refunding, *, source: Source) -> Seen:
    payment = await of_intent(tx, said.intent_id)
    if isinstance(payment, Seen):
        return payment
    if said.currency != payment.currency:
        return Seen.DIFFERS
    ours = await refunds.refund_find(tx, payment.id, said)
    if said.failed:
        return await _refund_failed(tx, payment, said, ours, source)
    if await store.has(tx, said.id, "refunded") or await store.has(tx, said.id, "refund_failed"):
        return Seen.DONE
    amount = micros_of(said.cents)
    if payment.refunded_micros + amount > payment.amount_micros:
        return Seen.DIFFERS
    taken = await _refund_taken(tx, payment, said, ours)
    refunded = payment.refunded_micros + amount
    after = await checkouts.payment_settle(
        tx,
        payment.id,
        to=standing(payment.amount_micros, refunded, payment.dispute),
        refunded_micros=refunded,
        disputed_micros=payment.disputed_micros,
        dispute=payment.dispute,
    )
    await store.add(
        tx,
        Effect(
            object_id=said.id,
            effect="refunded",
            payment=after,
            amount_micros=amount,
            source=source,
            transaction_id=taken.transaction_id,
        ),
    )
    tx.emit(
        PaymentRefunded(
            payment_id=after.id,
            refund_id=ours.id if ours else None,
            currency=after.currency,
            amount_micros=amount,
            refunded_micros=refunded,
            uncovered_micros=taken.uncovered_micros,
        ),
        subject_id=after.id,
        org_id=after.org_id,
    )
    return Seen.DONE


async def _refund_taken(tx: Tx, payment: Payment, said: Refunding, ours: Refund | None) -> Taken:
    """What was set aside for it, if it is ours; else what the organisation has."""
    amount = micros_of(said.cents)
    hold = await refunds.hold_open(tx, ours)
    if ours is not None and hold is not None and hold.left_micros >= amount:
        capture = Capture(
            kind=PostingKind.REFUND,
            key=said.id,
            amount_micros=amount,
            counter=AccountKind.CLEARING,
            reason=ours.reason,
        )
        taken = Taken(
            transaction_id=(await ledger.hold_capture(tx, hold.id, capture)).transaction_id, uncovered_micros=0
        )
    else:
        taken = await take_back(tx, payment, amount, PostingKind.REFUND, said.id, ours.reason if ours else "refund")
    if ours is not None:
        await refunds.refund_succeeded(tx, ours, said.id, taken.transaction_id)
    return taken


async def _refund_failed(tx: Tx, payment: Payment, said: Refunding, ours: Refund | None, source: Source) -> Seen:
    """It did not arrive, so the money is the organisation's again. Heard of before the refund itself, it leaves a mark,
    so that the refund is not taken for a new one later."""
    if await store.has(tx, said.id, "refund_failed"):
        return Seen.DONE
    was, amount, transaction_id = await store.refunded(tx, said.id), 0, None
    after = payment
    if was is not None:
        amount, transaction_id = was.amount_micros, await _given_again(tx, payment, said, was)
        refunded = payment.refunded_micros - amount
        after = await checkouts.payment_settle(
            tx,
            payment.id,
            to=standing(payment.amount_micros, refunded, payment.dispute),
            refunded_micros=refunded,
            disputed_micros=payment.disputed_micros,
            dispute=payment.dispute,
        )
    await store.add(
        tx,
        Effect(
            object_id=said.id,
            effect="refund_failed",
            payment=after,
            amount_micros=amount,
            source=source,
            transaction_id=transaction_id,
        ),
    )
    if ours is not None:
        await refunds.refund_failed(tx, ours, reason=said.reason or "the provider could not pay it back")
    tx.emit(
        RefundFailed(
            payment_id=payment.id,
            refund_id=ours.id if ours else None,
            currency=payment.currency,
            amount_micros=micros_of(said.cents),
            reason=said.reason,
        ),
        subject_id=payment.id,
        org_id=payment.org_id,
    )
    return Seen.DONE


async def _given_again(tx: Tx, payment: Payment, said: Refunding, was: Refunded) -> TransactionId:
    """To each account what was taken from it: an organisation gets back what it gave, not what was ours to lose."""
    covered = -await ledger.amount_of(tx, was.transaction_id, payment.org_id)
    legs = {
        AccountKind.TENANT: covered,
        AccountKind.UNCOLLECTIBLE: was.amount_micros - covered,
        AccountKind.CLEARING: -was.amount_micros,
    }
    posted = await ledger.post(
        tx,
        Posting(
            kind=PostingKind.REFUND,
            key=f"{said.id}:failed",
            org_id=payment.org_id if covered else None,
            legs={account: micros for account, micros in legs.items() if micros},
            currency=payment.currency,
            subject_id=payment.id,
            reason="a refund that did not arrive",
        ),
    )
    return posted.transaction_id


async def of_intent(tx: Tx, intent_id: str | None) -> Payment | Seen:
    """The payment that something goes back of; not yet, if we do not know that it was paid."""
    payment = await checkouts.payment_find(tx, intent_id=intent_id) if intent_id else None
    if payment is None:
        return Seen.EARLY if intent_id else Seen.UNKNOWN
    return payment if payment.state in PAID else Seen.EARLY


async def take_back(tx: Tx, payment: Payment, amount: int, kind: PostingKind, key: str, reason: str) -> Taken:
    """The provider has taken it from us: from the organisation what it has, and the rest is ours to lose."""
    has = (await ledger.balance_at(tx, payment.org_id, currency=payment.currency)).available_micros
    covered = max(0, min(amount, has))
    legs = {AccountKind.TENANT: -covered, AccountKind.UNCOLLECTIBLE: covered - amount, AccountKind.CLEARING: amount}
    posted = await ledger.post(
        tx,
        Posting(
            kind=kind,
            key=key,
            org_id=payment.org_id if covered else None,
            legs={account: micros for account, micros in legs.items() if micros},
            currency=payment.currency,
            subject_id=payment.id,
            reason=reason,
        ),
    )
    return Taken(transaction_id=posted.transaction_id, uncovered_micros=amount - covered)
