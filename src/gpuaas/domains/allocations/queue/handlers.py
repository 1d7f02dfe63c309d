"""What runs by itself around the queue: serving it each second, and at once when something was given back."""

import asyncio
import contextlib

from prometheus_client import Counter

from gpuaas.domains.allocations import service as allocations
from gpuaas.domains.allocations.queue import service
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import AGAIN, AWAY, Database
from gpuaas.kit import log
from gpuaas.kit.errors import Fault
from gpuaas.kit.parts import Parts
from gpuaas.ports.hints import Hints
from gpuaas.ports.policy import PolicyReader

SERVED = Counter("gpuaas_queue_placed", "Requests that were placed out of the queue.")
PAUSE_SECONDS = 0.05
"""Between two rounds that hints ask for: many slots given back at once are served together."""


@timer("allocations.queue", every_seconds=1)
async def queue_serve(parts: Parts) -> None:
    policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    SERVED.inc(len(await service.queue_serve(parts.get(Database), policy)))


async def queue_follow(db: Database, policy: PolicyReader, hints: Hints) -> None:
    """Until cancelled: serve when somebody says that something was given back. What is missed, the timer serves."""
    given_back = asyncio.Event()
    hints.listen(allocations.QUEUE_HINT, lambda _: given_back.set())
    while True:
        await given_back.wait()
        given_back.clear()  # before looking: what is given back from here on is looked for again
        try:
            SERVED.inc(len(await service.queue_serve(db, policy)))
        except (*AWAY, *AGAIN, Fault) as error:
            log.get_logger().warning("serving the queue was interrupted", reason=f"{type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001 # whatever it is, the timer tries again
            log.get_logger().error("serving the queue failed", exc_info=error)
        with contextlib.suppress(TimeoutError):
            await asyncio.sleep(PAUSE_SECONDS)
