"""What runs by itself around agents' versions: uploads nobody finished are given up, bytes nobody needs are deleted."""

from gpuaas.domains.nodes.artifacts import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit import log
from gpuaas.kit.parts import Parts
from gpuaas.ports.objects import Objects, ObjectsAway

ROUNDS = 20


@timer("nodes.artifacts_overdue", every_seconds=30)
async def artifacts_overdue(parts: Parts) -> None:
    async with parts.get(Database).transaction(Sight(PLATFORM), "system:nodes.artifacts") as tx:
        await service.artifacts_overdue(tx)


@timer("nodes.artifacts_delete", every_seconds=3600, deadline_seconds=300)
async def artifacts_delete(parts: Parts) -> None:
    objects = parts.get(Objects)  # type: ignore[type-abstract] # the part is whatever implements it
    try:
        for _ in range(ROUNDS):
            if not await service.bytes_delete(parts.get(Database), objects):
                return
    except ObjectsAway as error:
        log.get_logger().warning("artifacts are not deleted", reason=str(error))
