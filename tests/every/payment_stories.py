"""How each event of payments comes to be told that no example tells. Each story ends with its subject."""

from collections.abc import Awaitable, Callable
from uuid import UUID

from gpuaas.kit.ids import new_id
from tests.support.people import found
from tests.support.till import MICROS, Till, notice, session_of

Story = Callable[[Till], Awaitable[UUID]]


async def stored(till: Till) -> UUID:
    event_id = f"evt_{new_id().hex}"
    assert (await till.send(notice("customer.created", {"id": "cus_1"}, event_id))).status_code == 200
    [row] = await till.rows("SELECT id FROM webhook_events WHERE event_id = $1", event_id)
    return UUID(str(row["id"]))


async def succeeded(till: Till) -> UUID:
    return UUID((await till.paid())["id"])


async def failed(till: Till) -> UUID:
    payment = await till.top_up()
    await till.pay(payment, "bank_fails")
    await till.until(payment["id"], "failed")
    return UUID(payment["id"])


async def expired(till: Till) -> UUID:
    payment = await till.top_up()
    path = f"/orgs/{till.purse.org_id}/payments/{payment['id']}/cancel"
    found(await till.purse.city.ask(till.purse.owner, "POST", path), 200)
    return UUID(payment["id"])


async def refund(till: Till, payment_id: str, units: int) -> UUID:
    body = {"amount_micros": units * MICROS, "reason": "as an example"}
    path = f"/admin/payments/{payment_id}/refunds"
    operator = await till.purse.city.admin()  # one who has refunded nothing alone yet
    return UUID(found(await till.purse.city.ask(operator, "POST", path, body), 202)["id"])


async def refunded(till: Till) -> UUID:
    payment = await till.paid()
    await refund(till, payment["id"], 20)
    await till.run_flows()
    return UUID(payment["id"])


async def refund_failed(till: Till) -> UUID:
    payment = await till.paid()
    await till.order("refunds", pending=True)
    await refund(till, payment["id"], 20)
    await till.run_flows()
    [row] = await till.rows(
        "SELECT object_id FROM payment_effects WHERE effect = 'refunded' AND payment_id = $1", payment["id"]
    )
    await till.order("settle_refund", refund=row["object_id"], good=False)
    await till.told()
    await till.order("clear")
    return UUID(payment["id"])


async def refund_proposed(till: Till) -> UUID:
    return await refund(till, (await till.paid(500))["id"], 400)


async def disputed(till: Till) -> UUID:
    payment = await till.paid()
    await till.dispute(payment)
    return UUID(payment["id"])


async def mismatched(till: Till) -> UUID:
    payment = await till.read((await till.top_up())["id"])
    body = notice("checkout.session.completed", session_of(payment, amount_total=1))
    assert (await till.send(body)).status_code == 200
    await till.react()
    return payment.id


PAYMENT_STORIES: dict[str, Story] = {
    "payments.webhook_stored": stored,
    "payments.succeeded": succeeded,
    "payments.failed": failed,
    "payments.expired": expired,
    "payments.refunded": refunded,
    "payments.refund_failed": refund_failed,
    "payments.refund_proposed": refund_proposed,
    "payments.disputed": disputed,
    "payments.mismatched": mismatched,
}
