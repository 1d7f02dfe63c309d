"""Valid requests for the operations on quotas and on the queue."""

from tests.every.allocation_world import put_allocation, put_quota
from tests.every.examples import REASON, Example, Stage, example, plain
from tests.every.fleet_world import put_sku

plain("quota_list")
plain("queue_list")
plain("project_queue_list")


@example
async def quota_set(stage: Stage) -> Example:
    await put_sku(stage.setting)
    return Example(path={"org_id": stage.setting.org_id}, body={"gpu_model": "H200", "gpus": 16})


@example
async def quota_unset(stage: Stage) -> Example:
    quota_id = await put_quota(stage.setting)
    return Example(path={"org_id": stage.setting.org_id, "quota_id": quota_id})


@example
async def allocation_priority_set(stage: Stage) -> Example:
    allocation_id = await put_allocation(stage.setting, state="requested", held=False)
    return Example(path={"allocation_id": allocation_id}, body={"priority": 10, "reason": REASON})
