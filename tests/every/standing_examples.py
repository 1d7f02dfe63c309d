"""Valid requests for the operations on standing and budgets."""

from datetime import timedelta

from gpuaas.kit import clock
from tests.every.examples import REASON, Example, Stage, example, plain
from tests.every.standing_world import put_budget

plain("standing_get")
plain("budget_list")


@example
async def standing_pause(stage: Stage) -> Example:
    until = (clock.now() + timedelta(hours=6)).isoformat()
    return Example(path={"org_id": stage.setting.org_id}, body={"until": until, "reason": REASON})


@example
async def budget_get(stage: Stage) -> Example:
    return Example(path={"budget_id": await put_budget(stage.setting)})


@example
async def budget_set(stage: Stage) -> Example:
    return Example(
        body={"project_id": str(stage.setting.project_id), "soft_micros": 5_000_000, "hard_micros": 9_000_000}
    )


@example
async def budget_delete(stage: Stage) -> Example:
    return Example(path={"budget_id": await put_budget(stage.setting)})
