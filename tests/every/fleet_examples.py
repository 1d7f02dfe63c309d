"""Valid requests for the operations on the catalogue, nodes and their certificates."""

from tests.every.examples import Example, Stage, example, plain
from tests.every.fleet_world import put_sku, sku_body

plain("sku_list")


@example
async def sku_create(stage: Stage) -> Example:
    return Example(body=sku_body(currency="USD", micros_per_gpu_hour=3_500_000))


@example
async def sku_get(stage: Stage) -> Example:
    return Example(path={"sku_id": await put_sku(stage.setting)})


@example
async def sku_update(stage: Stage) -> Example:
    return Example(path={"sku_id": await put_sku(stage.setting)}, body={"state": "retired"})


@example
async def sku_price_list(stage: Stage) -> Example:
    return Example(path={"sku_id": await put_sku(stage.setting)})


@example
async def sku_price_set(stage: Stage) -> Example:
    return Example(path={"sku_id": await put_sku(stage.setting)}, body={"micros_per_gpu_hour": 4_000_000})
