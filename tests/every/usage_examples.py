"""Valid requests for the operations on usage."""

from tests.every.examples import Example, Stage, example
from tests.every.usage_world import put_usage


@example
async def usage_get(stage: Stage) -> Example:
    await put_usage(stage.setting)
    return Example()


@example
async def usage_export_csv(stage: Stage) -> Example:
    await put_usage(stage.setting)
    return Example()


@example
async def runway_get(stage: Stage) -> Example:
    await put_usage(stage.setting)
    return Example()
