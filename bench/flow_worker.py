"""One worker that runs nothing but a flow of four steps that do nothing, one of which waits for an agent: what the
executor itself costs."""

import asyncio
import sys
from datetime import timedelta

import uvloop

from gpuaas.contracts.http.flows import FlowKind
from gpuaas.flows.executor import AT_ONCE, Executor
from gpuaas.flows.story import Flow, Scene, Step, Wait, nothing
from gpuaas.infra.nats.bus import Bus
from gpuaas.infra.nats.hints import NatsHints
from gpuaas.infra.postgres.database import Database
from gpuaas.kit import log
from gpuaas.kit.parts import Parts

MINUTE = timedelta(minutes=1)


async def wait_once(scene: Scene) -> Wait | None:
    """As a step that asks a node: the first time it waits, woken it goes on."""
    if scene.memo.get("asked"):
        return None
    scene.memo["asked"] = True
    return Wait()


FLOW = Flow(
    kind=FlowKind.ALLOCATION_PROVISION,
    version=1,
    steps=(
        Step("first", nothing, nothing, MINUTE),
        Step("asks", wait_once, nothing, MINUTE),
        Step("third", nothing, nothing, MINUTE),
        Step("last", nothing, nothing, MINUTE),
    ),
    surrender=nothing,
)


async def main(database_url: str, nats_url: str) -> None:
    log.configure("worker", level="warning", form="json")
    db, bus = Database(database_url, write_pool_size=AT_ONCE + 2), Bus(nats_url, "worker")
    await db.open()
    bus.start()
    hints = NatsHints(bus)
    db.hints = hints
    executor = Executor(db, {FLOW.kind: FLOW}, Parts(), worker="bench")
    await asyncio.gather(hints.run(), executor.run(hints))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2]))
