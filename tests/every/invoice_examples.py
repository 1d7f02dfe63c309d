"""Valid requests for the operations on statements and invoices."""

from tests.every.examples import Example, Stage, example
from tests.every.invoice_world import put_invoice
from tests.every.usage_world import put_usage


@example
async def proof_get(stage: Stage) -> Example:
    await put_usage(stage.setting)
    return Example()


@example
async def statement_get(stage: Stage) -> Example:
    await put_usage(stage.setting)
    return Example()


@example
async def statement_export_pdf(stage: Stage) -> Example:
    await put_usage(stage.setting)
    return Example()


@example
async def statement_export_csv(stage: Stage) -> Example:
    await put_usage(stage.setting)
    return Example()


@example
async def invoice_list(stage: Stage) -> Example:
    await put_invoice(stage.setting)
    return Example()


@example
async def invoice_get(stage: Stage) -> Example:
    return Example(path={"invoice_id": await put_invoice(stage.setting)})


@example
async def invoice_download_pdf(stage: Stage) -> Example:
    return Example(path={"invoice_id": await put_invoice(stage.setting)})


@example
async def invoice_download_csv(stage: Stage) -> Example:
    return Example(path={"invoice_id": await put_invoice(stage.setting)})
