"""The link that adds money: it opens a payment of the policy's amount and leads to the provider's page. Nothing is
charged before somebody pays there. The payment is known by the link, so pressing again leads to the same one."""

from typing import cast

from gpuaas.contracts.http.payments import PaymentCreate, PaymentState
from gpuaas.contracts.permissions import P
from gpuaas.domains.identity.orgs import service as orgs
from gpuaas.domains.notifications.links.models import Action, Outcome, Preview, Visit
from gpuaas.domains.notifications.words import money
from gpuaas.domains.payments.checkouts import service as payments
from gpuaas.domains.payments.checkouts.models import Payment
from gpuaas.domains.payments.site import PaymentSite
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.errors import Missing
from gpuaas.kit.money import DEFAULT_CURRENCY
from gpuaas.ports.payments import Checkout, PaymentProvider


async def describe(visit: Visit) -> Preview:
    try:
        org = await orgs.org_get(visit.tx, visit.actor, visit.org_id)
    except Missing:
        return Preview(title="There is nothing to pay", text="The organisation does not exist any more.")
    amount = money(_amount(visit), _currency(visit))
    return Preview(
        title=f"Add {amount}?",
        text="You are led to the payment page. Nothing is charged before you pay there.",
        button=f"Pay {amount}",
        facts=[("Organisation", org.title or org.name), ("Another amount", "gpuaas billing top-up")],
    )


async def prepare(visit: Visit) -> tuple[Payment, Checkout | None]:
    provider = visit.parts.get(PaymentProvider)  # type: ignore[type-abstract] # the part is whatever implements it
    return await payments.payment_begin(
        visit.parts.get(Database),
        visit.actor,
        visit.policy,
        provider,
        visit.org_id,
        PaymentCreate(amount_micros=_amount(visit), currency=_currency(visit)),
        key=f"link:{visit.link.id}",
        return_url=visit.parts.get(PaymentSite).return_url,
    )


async def act(visit: Visit, prepared: object) -> Outcome:
    payment = await payments.payment_opened(visit.tx, *cast(tuple[Payment, Checkout | None], prepared))
    amount = money(payment.amount_micros, payment.currency)
    if payment.state is PaymentState.OPEN:
        return Outcome(title=f"A payment of {amount} was opened", text="", redirect=payment.url)
    return Outcome(title=f"The payment of {amount} is {payment.state}", text="There is nothing more to do here.")


def _amount(visit: Visit) -> int:
    """What the policy says, within what a payment may be."""
    least = visit.policy.number("payments.top_up_min_micros", visit.org_id)
    most = visit.policy.number("payments.top_up_max_micros", visit.org_id)
    return max(least, min(visit.policy.number("notifications.top_up_micros", visit.org_id), most))


def _currency(visit: Visit) -> str:
    return visit.link.detail or DEFAULT_CURRENCY


TOP_UP = Action(
    name="billing.top_up",
    permission=P.BILLING_MANAGE,
    describe=describe,
    act=act,
    prepare=prepare,
    leads_out=True,
    again=True,
)
