"""Valid requests for the operations on standing."""

from datetime import timedelta

from gpuaas.kit import clock
from tests.every.examples import REASON, Example, Stage, example, plain

plain("standing_get")


@example
async def standing_pause(stage: Stage) -> Example:
    until = (clock.now() + timedelta(hours=6)).isoformat()
    return Example(path={"org_id": stage.setting.org_id}, body={"until": until, "reason": REASON})
