"""Valid requests for the operations on allocations, what is kept of them, and flows."""

from uuid import UUID

from tests.every.allocation_world import put_allocation, put_certificate, put_flow
from tests.every.billing_world import put_money
from tests.every.examples import REASON, Example, Stage, example, plain
from tests.every.fleet_world import put_sku
from tests.every.world import ssh_public_key

plain("allocation_list")
plain("allocation_platform_list")
plain("sanitisation_list")
plain("sanitisation_keys")
plain("flow_list")


async def _one(stage: Stage, state: str = "active") -> dict[str, UUID]:
    return {"allocation_id": await put_allocation(stage.setting, state=state, held=state != "failed")}


@example
async def allocation_create(stage: Stage) -> Example:
    """Nothing of the SKU is there: it waits."""
    await put_money(stage.setting)
    body = {
        "sku_id": str(await put_sku(stage.setting)),
        "if_full": "queue",
        "ssh_keys": [ssh_public_key()],
        "tags": ["example"],
    }
    return Example(body=body)


@example
async def allocation_estimate(stage: Stage) -> Example:
    return Example(query={"sku_id": str(await put_sku(stage.setting)), "gpu_count": "2"})


@example
async def allocation_get(stage: Stage) -> Example:
    return Example(path=await _one(stage))


@example
async def allocation_explain(stage: Stage) -> Example:
    return Example(path=await _one(stage))


@example
async def allocation_timeline(stage: Stage) -> Example:
    return Example(path=await _one(stage))


@example
async def allocation_timeline_live(stage: Stage) -> Example:
    """Of one that has ended: the stream ends at once."""
    return Example(path=await _one(stage, "failed"))


@example
async def allocation_task_list(stage: Stage) -> Example:
    return Example(path=await _one(stage))


@example
async def allocation_renew(stage: Stage) -> Example:
    return Example(path=await _one(stage), body={"lease_hours": 2})


@example
async def allocation_release(stage: Stage) -> Example:
    return Example(path=await _one(stage), body={"reason": REASON})


@example
async def allocation_stop(stage: Stage) -> Example:
    return Example(path=await _one(stage), body={"reason": REASON})


@example
async def allocation_start(stage: Stage) -> Example:
    await put_money(stage.setting)
    allocation_id = await put_allocation(stage.setting, state="stopped", stop_reason="user", stopped_by="example")
    return Example(path={"allocation_id": allocation_id})


@example
async def allocation_force_release(stage: Stage) -> Example:
    return Example(path=await _one(stage), body={"reason": REASON})


@example
async def sanitisation_get(stage: Stage) -> Example:
    allocation_id = await put_allocation(stage.setting, state="released")
    return Example(path={"certificate_id": await put_certificate(stage.setting, allocation_id)})


async def _flow(stage: Stage) -> dict[str, UUID]:
    allocation_id = await put_allocation(stage.setting, state="provisioning")
    return {"run_id": await put_flow(stage.setting, allocation_id)}


@example
async def flow_get(stage: Stage) -> Example:
    return Example(path=await _flow(stage))


@example
async def flow_retry(stage: Stage) -> Example:
    return Example(path=await _flow(stage))


@example
async def flow_abort(stage: Stage) -> Example:
    return Example(path=await _flow(stage), body={"reason": REASON})
