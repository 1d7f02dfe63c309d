"""Valid requests for the operations on payments."""

from gpuaas.kit.ids import new_id
from tests.every.examples import REASON, Example, Stage, example, plain
from tests.every.payment_world import MICROS, put_payment, put_refund

plain("payment_list_all")
plain("refund_list")
plain("payment_difference_list")
plain("billing_portal_open")
plain("reconcile")


@example
async def payment_create(stage: Stage) -> Example:
    return Example(body={"amount_micros": 25 * MICROS})


@example
async def payment_list(stage: Stage) -> Example:
    await put_payment(stage.setting)
    return Example()


@example
async def payment_get(stage: Stage) -> Example:
    return Example(path={"payment_id": await put_payment(stage.setting)})


@example
async def payment_cancel(stage: Stage) -> Example:
    return Example(path={"payment_id": await put_payment(stage.setting)})


@example
async def refund_create(stage: Stage) -> Example:
    payment_id = await put_payment(stage.setting, paid=True)
    return Example(path={"payment_id": payment_id}, body={"amount_micros": 5 * MICROS, "reason": REASON})


@example
async def refund_approve(stage: Stage) -> Example:
    refund_id = await put_refund(stage.setting, await put_payment(stage.setting, paid=True))
    return Example(path={"refund_id": refund_id}, body={"reason": REASON})


@example
async def refund_reject(stage: Stage) -> Example:
    refund_id = await put_refund(stage.setting, await put_payment(stage.setting, paid=True))
    return Example(path={"refund_id": refund_id}, body={"reason": REASON})


@example
async def payment_accept(stage: Stage) -> Example:
    session = f"cs_{new_id().hex}"
    payment_id = await put_payment(
        stage.setting,
        state="failed_reconcile",
        due_at=None,
        taken_micros=7 * MICROS,
        taken_currency="USD",
        taken_session=session,
    )
    return Example(path={"payment_id": payment_id}, body={"reason": REASON})
