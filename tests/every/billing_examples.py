"""Valid requests for the operations on money."""

from tests.every.billing_world import MICROS, put_adjustment, put_hold, put_money
from tests.every.examples import REASON, Example, Stage, example, plain

plain("adjustment_list")
plain("books_get")
plain("books_verify")


@example
async def balance_get(stage: Stage) -> Example:
    await put_money(stage.setting)
    return Example()


@example
async def ledger_list(stage: Stage) -> Example:
    await put_money(stage.setting)
    return Example()


@example
async def ledger_export_csv(stage: Stage) -> Example:
    await put_money(stage.setting)
    return Example()


@example
async def money_hold_list(stage: Stage) -> Example:
    await put_hold(stage.setting)
    return Example()


@example
async def money_hold_void(stage: Stage) -> Example:
    return Example(path={"hold_id": await put_hold(stage.setting)}, body={"reason": REASON})


@example
async def credit_line_set(stage: Stage) -> Example:
    body = {"credit_line_micros": 100 * MICROS, "reason": REASON}
    return Example(path={"org_id": stage.setting.org_id}, body=body)


@example
async def adjustment_create(stage: Stage) -> Example:
    return Example(path={"org_id": stage.setting.org_id}, body={"amount_micros": 5 * MICROS, "reason": REASON})


@example
async def adjustment_approve(stage: Stage) -> Example:
    return Example(path={"adjustment_id": await put_adjustment(stage.setting)}, body={"reason": REASON})


@example
async def adjustment_reject(stage: Stage) -> Example:
    return Example(path={"adjustment_id": await put_adjustment(stage.setting)}, body={"reason": REASON})


@example
async def ledger_reverse(stage: Stage) -> Example:
    return Example(path={"transaction_id": await put_money(stage.setting)}, body={"reason": REASON})
