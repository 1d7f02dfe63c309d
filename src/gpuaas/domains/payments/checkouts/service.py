"""The verbs of payments as such: asked for, opened, closed. What the provider says of them is settlement's to apply.

Always holds: a payment is written down before the provider is asked for its page, and asked for with its id; the same
request is the same payment, even if its first answer was lost."""

from datetime import timedelta
from uuid import UUID

import msgspec

from gpuaas.contracts.actor import Actor
from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.payments import PaymentExpired, PaymentFailed
from gpuaas.contracts.http.payments import PaymentCreate, PaymentState
from gpuaas.domains.payments.amounts import cents_of, check_limits
from gpuaas.domains.payments.checkouts import store
from gpuaas.domains.payments.checkouts.models import NewPayment, Payment
from gpuaas.domains.payments.checkouts.states import LIFE, PAID, S
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import Sight, Tx
from gpuaas.kit.errors import Conflict, Missing, Refused
from gpuaas.kit.ids import OrgId, PaymentId, new_id
from gpuaas.ports.payments import Checkout, CheckoutWanted, CustomerUnknown, PaymentProvider
from gpuaas.ports.policy import PolicyReader

DUE_BATCH = 200
NEVER_OPENED = "the payment provider opened no page for it in time"

payment_find = store.find
payment_list = store.list_all
payment_learn = store.learn
payment_settle = store.settle
payment_wait = store.wait
payment_move = store.move
payment_mismatch = store.mismatch
payment_accept_proposed = store.accept_proposed
payment_accept = store.accept


async def payment_get(tx: Tx, payment_id: UUID, *, lock: bool = False) -> Payment:
    return await store.get(tx, payment_id, lock=lock)


async def payment_of(tx: Tx, org_id: OrgId, payment_id: UUID) -> Payment:
    found = await store.get(tx, payment_id)
    if found.org_id != org_id:
        raise Missing(Code.PAYMENT_MISSING, "There is no such payment here.")
    return found


async def payment_begin(
    db: Database,
    actor: Actor,
    policy: PolicyReader,
    provider: PaymentProvider,
    org_id: OrgId,
    wanted: PaymentCreate,
    *,
    key: str,
    return_url: str,
) -> tuple[Payment, Checkout | None]:
    """Write down what is wanted, then ask the provider for its page. None: it has become something else already."""
    least = policy.number("payments.top_up_min_micros", org_id)
    check_limits(
        wanted.amount_micros,
        wanted.currency,
        least=least,
        most=max(least, policy.number("payments.top_up_max_micros", org_id)),
    )
    cents = cents_of(wanted.amount_micros, wanted.currency)
    assert actor.id is not None  # noqa: S101 # the pipeline admits only actors with an id here
    sight, name = Sight(org_id, actor.id), f"{actor.kind}:{actor.subject}"
    customer_id = await customer_of(db, actor, provider, org_id)
    async with db.transaction(sight, name) as tx:
        payment = await store.insert(
            tx,
            NewPayment(
                id=PaymentId(new_id()),
                org_id=org_id,
                provider=provider.name,
                currency=wanted.currency,
                amount_micros=wanted.amount_micros,
                asked_by=actor.email or actor.name,
                asked_by_id=actor.id,
                asked_key=f"{org_id}:{actor.id}:{key}",
                checkout_minutes=policy.number("payments.checkout_minutes"),
            ),
        )
    if (payment.org_id, payment.amount_micros, payment.currency) != (org_id, wanted.amount_micros, wanted.currency):
        raise Refused(Code.IDEMPOTENCY_KEY_REUSED, "This Idempotency-Key was used with another request. Use a new one.")
    if payment.state is not S.CREATED:
        return payment, None
    asked = CheckoutWanted(
        payment_id=payment.id,
        org_id=org_id,
        customer_id=customer_id,
        cents=cents,
        currency=wanted.currency,
        description="Credit for GPU time",
        return_url=return_url,
        expires_at=payment.expires_at,
    )
    try:
        return payment, await provider.checkout_make(asked)
    except CustomerUnknown:
        customer_id = await _customer_again(db, actor, provider, org_id, customer_id)
        return payment, await provider.checkout_make(msgspec.structs.replace(asked, customer_id=customer_id))


async def portal_open(db: Database, actor: Actor, provider: PaymentProvider, org_id: OrgId, return_url: str) -> str:
    customer_id = await customer_of(db, actor, provider, org_id)
    try:
        return await provider.portal_open(customer_id, return_url)
    except CustomerUnknown:
        return await provider.portal_open(await _customer_again(db, actor, provider, org_id, customer_id), return_url)


async def payment_opened(tx: Tx, payment: Payment, checkout: Checkout | None) -> Payment:
    """It can be paid now; one that was paid, or has ended, while we asked stays what it is."""
    now = await store.get(tx, payment.id, lock=True)
    if checkout is None or now.state is not S.CREATED:
        return now
    return await store.move(
        tx, now.id, to=S.OPEN, url=checkout.url, session_id=checkout.id, intent_id=checkout.intent_id
    )


async def customer_of(db: Database, actor: Actor, provider: PaymentProvider, org_id: OrgId) -> str:
    """How the provider calls the organisation; it is asked once."""
    sight = Sight(org_id, actor.id)
    async with db.read(sight) as tx:
        known = await store.customer(tx, org_id)
    if known is not None:
        return known
    made = await provider.customer_make(org_id)
    async with db.transaction(sight, f"{actor.kind}:{actor.subject}") as tx:
        await store.customer_keep(tx, org_id, made)
    return made


async def _customer_again(db: Database, actor: Actor, provider: PaymentProvider, org_id: OrgId, unknown: str) -> str:
    """The account at the provider was changed, or somebody deleted the customer there."""
    made = await provider.customer_make(org_id, instead_of=unknown)
    async with db.transaction(Sight(org_id, actor.id), f"{actor.kind}:{actor.subject}") as tx:
        await store.customer_change(tx, org_id, unknown, made)
    return made


async def payment_cancelled(tx: Tx, payment: Payment) -> Payment:
    """After the provider was asked to close its page, and what it said was applied."""
    now = await store.get(tx, payment.id, lock=True)
    if now.state is S.CREATED:
        return await payment_end(tx, now, to=S.EXPIRED, reason="cancelled")
    if now.state is not S.EXPIRED:
        raise Conflict(Code.STATE_MOVE_REFUSED, f"The payment is {now.state}: it cannot be cancelled any more.")
    return now


async def payment_end(tx: Tx, payment: Payment, *, to: PaymentState, reason: str) -> Payment:
    """It comes to nothing. One that has ended already stays what it is."""
    if payment.state not in LIFE.sources(to):
        return payment
    ended = await store.move(tx, payment.id, to=to, failure=reason)
    event = (
        PaymentExpired(payment_id=ended.id, currency=ended.currency, amount_micros=ended.amount_micros)
        if to is S.EXPIRED
        else PaymentFailed(
            payment_id=ended.id, currency=ended.currency, amount_micros=ended.amount_micros, reason=reason[:300]
        )
    )
    tx.emit(event, subject_id=ended.id, org_id=ended.org_id)
    return ended


async def payments_end_due(tx: Tx) -> int:
    """Those past their deadline. A notice that comes later is heard all the same."""
    late = await store.due(tx, list(LIFE.deadlines()), DUE_BATCH)
    for payment in late:
        if payment.state is S.CREATED:
            await payment_end(tx, payment, to=S.FAILED, reason=NEVER_OPENED)
        else:
            await payment_end(tx, payment, to=S.EXPIRED, reason="nobody paid in time")
    return len(late)


async def payments_open(tx: Tx, *, older: timedelta, after: UUID, limit: int) -> list[Payment]:
    """Those whose page may have been paid without our hearing of it."""
    return await store.unsettled(tx, older=older, after=after, limit=limit)


def is_paid(payment: Payment) -> bool:
    return payment.state in PAID
