"""What is made of ended tasks: slots from inspections, health from checks, the circuit breaker; and retention."""

from datetime import timedelta

from gpuaas.contracts.events.base import Envelope
from gpuaas.contracts.events.provisioning import TaskEnded
from gpuaas.contracts.http.nodes import TaskState
from gpuaas.contracts.tasks.catalogue import HealthCheck, Inspect, InspectResult
from gpuaas.domains.nodes.health import service
from gpuaas.domains.nodes.tasks import service as tasks
from gpuaas.infra.events import reaction, timer
from gpuaas.infra.postgres import retention
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit import clock, log
from gpuaas.kit.errors import Missing
from gpuaas.kit.ids import TaskId, floor_id
from gpuaas.kit.parts import Parts
from gpuaas.ports.policy import PolicyReader

PRUNED = 5000


@reaction("nodes.task_outcome", to=TaskEnded)
async def task_outcome(tx: Tx, event: TaskEnded, envelope: Envelope, parts: Parts) -> None:
    if event.task_type not in (Inspect.TYPE, HealthCheck.TYPE, *service.PROVISIONS):
        return
    policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    task = await tasks.task_get(tx, TaskId(event.task_id))
    try:
        if task.type == Inspect.TYPE and task.state is TaskState.DONE:
            result = tasks.result_of(task, await tasks.task_story(tx, task.id))
            if isinstance(result, InspectResult):
                await service.inspection_ended(tx, task, result.topology)
        elif task.type == HealthCheck.TYPE:
            await service.check_ended(tx, task, strikes_max=policy.number("nodes.strikes_max"))
        elif task.type in service.PROVISIONS:
            await service.provision_ended(tx, task, allowed=policy.number("nodes.failed_provisions_max"))
    except Missing as fault:
        log.get_logger().info("the task's node is gone", task_id=str(task.id), reason=fault.message)


@timer("nodes.health_retention", every_seconds=3600, deadline_seconds=300)
async def health_prune(parts: Parts) -> None:
    policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    before, db = clock.now() - timedelta(days=policy.number("retention.node_health_days")), parts.get(Database)
    await retention.drop_months(db, ["node_health"], before)
    while True:
        async with db.transaction(Sight(PLATFORM), "system:nodes.health_retention") as tx:
            if await service.faults_prune(tx, before=floor_id(before), limit=PRUNED) < PRUNED:
                return
