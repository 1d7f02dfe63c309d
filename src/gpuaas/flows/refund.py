"""payment.refund: money of a payment goes back to whoever paid.

    hold → pay

The money is set aside first, so that it is not spent while the provider is asked; asked with the refund's id as key, so
that asking again is not paying back twice; then taken. What the provider says is applied by settlement, once, whether
the answer, a notice or its list comes first: also when this flow gave up because no answer came."""

from datetime import timedelta

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.flows import FlowKind
from gpuaas.contracts.http.payments import RefundState
from gpuaas.domains.payments.amounts import cents_of
from gpuaas.domains.payments.checkouts import service as checkouts
from gpuaas.domains.payments.refunds import service as refunds
from gpuaas.domains.payments.refunds.models import Refund
from gpuaas.domains.payments.settlement import service as settlement
from gpuaas.domains.payments.settlement.models import Seen, Source
from gpuaas.flows.story import Again, Call, Flow, Scene, Step, StepFailed, nothing
from gpuaas.kit.errors import Conflict, Unavailable
from gpuaas.kit.parts import Parts
from gpuaas.ports.payments import PaymentProvider, Refunding

MINUTE = timedelta(minutes=1)


# hold ----------------------------------------------------------------------------------------------------------------
async def hold(scene: Scene) -> None:
    refund = await refunds.refund_get(scene.tx, scene.subject_id, lock=True)
    if refund.state is RefundState.SUCCEEDED:
        return
    try:
        await refunds.refund_hold(scene.tx, refund)
    except Conflict as refused:
        if refused.code == Code.BALANCE_TOO_LOW:
            raise StepFailed(refused.code, "the organisation has spent it already") from refused
        raise


async def unhold(scene: Scene) -> None:
    refund = await refunds.refund_get(scene.tx, scene.subject_id, lock=True)
    if refund.state is RefundState.SUCCEEDED:
        return
    await refunds.refund_unhold(scene.tx, refund)
    await refunds.refund_given_up(scene.tx, refund, reason=told(scene))


# pay -----------------------------------------------------------------------------------------------------------------
async def load(scene: Scene) -> tuple[Refund, str | None]:
    refund = await refunds.refund_get(scene.tx, scene.subject_id)
    payment = await checkouts.payment_get(scene.tx, refund.payment_id)
    return refund, payment.intent_id


async def ask(parts: Parts, loaded: tuple[Refund, str | None]) -> Refunding | None:
    refund, intent_id = loaded
    if refund.state is not RefundState.REQUESTED:
        return None
    if intent_id is None:
        raise StepFailed("payment_unknown", "the provider has not told which payment it was")
    provider = parts.get(PaymentProvider)  # type: ignore[type-abstract] # the part is whatever implements it
    try:
        return await provider.refund_make(refund.id, intent_id, cents_of(refund.amount_micros, refund.currency))
    except Unavailable as away:
        raise Again(away.log or away.message) from away
    except Conflict as refused:
        raise StepFailed(refused.code, refused.log or refused.message) from refused


async def pay(scene: Scene) -> None:
    said: Refunding | None = scene.outcome
    if said is None:
        refund = await refunds.refund_get(scene.tx, scene.subject_id, lock=True)
        if refund.state is RefundState.SUCCEEDED:
            return
        raise StepFailed("state", f"the refund is {refund.state}")
    seen = await settlement.refund_seen(scene.tx, said, source=Source.ANSWER)
    if seen is not Seen.DONE:
        raise StepFailed("differs", f"what the provider says does not fit: {seen}")
    if said.failed:
        raise StepFailed("provider_failed", said.reason or "the provider could not pay it back")


async def surrender(scene: Scene) -> None:
    """What is set aside stays so until its time is over: the provider may have paid."""
    refund = await refunds.refund_get(scene.tx, scene.subject_id, lock=True)
    await refunds.refund_given_up(scene.tx, refund, reason=told(scene))


def told(scene: Scene) -> str:
    return (
        f"something of ours broke; see flow {scene.run.id}" if scene.run.error_code == "internal" else scene.run.error
    )


REFUND = Flow(
    kind=FlowKind.PAYMENT_REFUND,
    version=1,
    steps=(
        Step("hold", hold, unhold, 10 * MINUTE),
        Step("pay", pay, nothing, timedelta(hours=20), attempts=3000, call=Call(load, ask)),
    ),
    surrender=surrender,
)
