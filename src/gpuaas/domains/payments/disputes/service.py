"""The verbs of disputes.

Always holds: while the banks decide, what the organisation has of it is set aside; lost, it is taken, and what it had
spent already is ours to lose; won, it is free again. A dispute is opened once and closed once, in any order."""

from datetime import timedelta

from gpuaas.contracts.events.payments import PaymentDisputed
from gpuaas.contracts.http.billing import PostingKind
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.domains.billing.ledger.models import HoldWanted
from gpuaas.domains.payments.amounts import micros_of
from gpuaas.domains.payments.checkouts import service as checkouts
from gpuaas.domains.payments.checkouts.models import Payment
from gpuaas.domains.payments.settlement import service as settlement
from gpuaas.domains.payments.settlement.models import Effect, Seen, Source, Taken
from gpuaas.domains.payments.settlement.standing import standing
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit import clock
from gpuaas.ports.payments import Dispute

DISPUTES_LAST = timedelta(days=200)


async def dispute_seen(tx: Tx, said: Dispute, *, source: Source) -> Seen:
    payment = await settlement.of_intent(tx, said.intent_id)
    if isinstance(payment, Seen):
        return payment
    if said.currency != payment.currency:
        return Seen.DIFFERS
    if await settlement.effect_has(tx, said.id, "dispute_closed"):
        return Seen.DONE
    if said.closed:
        await _closed(tx, payment, said, source)
    elif not await settlement.effect_has(tx, said.id, "dispute_opened"):
        await _opened(tx, payment, said, source)
    return Seen.DONE


async def _opened(tx: Tx, payment: Payment, said: Dispute, source: Source) -> None:
    amount = _amount(payment, said)
    has = (await ledger.balance_at(tx, payment.org_id, currency=payment.currency)).available_micros
    aside = max(0, min(amount, has))
    if aside:
        await ledger.hold_take(tx, _hold(payment, said, aside))
    after = await _settle(tx, payment, "opened", lost=0)
    await _note(tx, after, said, source, lost=0, taken=None)
    _tell(tx, after, "opened", amount, amount - aside)


async def _closed(tx: Tx, payment: Payment, said: Dispute, source: Source) -> None:
    amount = _amount(payment, said)
    if await settlement.effect_has(tx, said.id, "dispute_opened"):
        held = await ledger.hold_find(tx, _key(said))
        if held is not None:
            await ledger.hold_void(tx, held.id)
    taken = None
    if said.lost:
        reason = "taken back by the payer's bank"
        taken = await settlement.take_back(tx, payment, amount, PostingKind.DISPUTE, said.id, reason)
    outcome, lost = ("lost", amount) if said.lost else ("won", 0)
    after = await _settle(tx, payment, outcome, lost=lost)
    await _note(tx, after, said, source, lost=lost, taken=taken)
    _tell(tx, after, outcome, amount, taken.uncovered_micros if taken else 0)


def _amount(payment: Payment, said: Dispute) -> int:
    """Not more than was paid."""
    return min(micros_of(said.cents), payment.amount_micros)


def _key(said: Dispute) -> str:
    return f"dispute:{said.id}"


def _hold(payment: Payment, said: Dispute, amount: int) -> HoldWanted:
    return HoldWanted(
        key=_key(said),
        org_id=payment.org_id,
        amount_micros=amount,
        until=clock.now() + DISPUTES_LAST,
        currency=payment.currency,
        subject_id=payment.id,
        reason="a payment whose payer asks his bank for it back",
    )


async def _settle(tx: Tx, payment: Payment, outcome: str, *, lost: int) -> Payment:
    if outcome == "won" and payment.disputed_micros:  # another one of it was lost before, and stays so
        outcome = "lost"
    return await checkouts.payment_settle(
        tx,
        payment.id,
        to=standing(payment.amount_micros, payment.refunded_micros, outcome),
        refunded_micros=payment.refunded_micros,
        disputed_micros=min(payment.disputed_micros + lost, payment.amount_micros),
        dispute=outcome,
    )


async def _note(tx: Tx, after: Payment, said: Dispute, source: Source, *, lost: int, taken: Taken | None) -> None:
    await settlement.effect_add(
        tx,
        Effect(
            object_id=said.id,
            effect="dispute_closed" if said.closed else "dispute_opened",
            payment=after,
            amount_micros=lost,
            source=source,
            transaction_id=taken.transaction_id if taken else None,
        ),
    )


def _tell(tx: Tx, payment: Payment, outcome: str, amount: int, uncovered: int) -> None:
    tx.emit(
        PaymentDisputed(
            payment_id=payment.id,
            outcome=outcome,
            currency=payment.currency,
            amount_micros=amount,
            uncovered_micros=uncovered,
        ),
        subject_id=payment.id,
        org_id=payment.org_id,
    )
