"""What runs by itself around tasks: signing in every worker that has the key, deadlines, retention."""

import asyncio
import contextlib
from datetime import timedelta
from uuid import UUID

from prometheus_client import Counter

from gpuaas.domains.nodes.tasks import service, store
from gpuaas.domains.nodes.tasks.hinting import TO_SIGN, subject_of
from gpuaas.domains.nodes.tasks.signing import TaskSigner
from gpuaas.infra.events import timer
from gpuaas.infra.postgres.database import AGAIN, AWAY, Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit import clock, log
from gpuaas.kit.errors import Unavailable
from gpuaas.kit.ids import floor_id
from gpuaas.kit.parts import Parts
from gpuaas.ports.hints import Hints
from gpuaas.ports.policy import PolicyReader

EVERYTHING = Sight(PLATFORM)
LOOK_SECONDS = 0.25
"""Beside hints, which bring what is queued at once: how late one that was lost can make it."""
KEY_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 5.0
PRUNED = 1000
SIGNED = Counter("gpuaas_tasks_signed", "Tasks that were signed for their nodes, in batches.")
OVERDUE = Counter("gpuaas_tasks_overdue", "Tasks that a deadline ended.", ["state"])


async def tasks_follow(db: Database, signer: TaskSigner, hints: Hints) -> None:
    """Until cancelled: sign what is queued and wake its nodes. Any number of workers may do so at once."""
    trusted_until, pause, queued = 0.0, LOOK_SECONDS, asyncio.Event()
    hints.listen(TO_SIGN, lambda _: queued.set())
    while True:
        hinted = queued.is_set()
        queued.clear()  # before looking: what is queued from here on is looked for again
        try:
            if clock.monotonic() >= trusted_until:
                await _require_key(db, signer)
                trusted_until = clock.monotonic() + KEY_SECONDS
            pause = 0.0 if await tasks_sign_once(db, signer, hints, look=not hinted) else LOOK_SECONDS
        except service.KeyRefused as error:
            log.get_logger().error("tasks are not signed", reason=str(error))
            pause = LONGEST_PAUSE_SECONDS
        except (*AWAY, *AGAIN, Unavailable) as error:
            log.get_logger().warning("signing interrupted", reason=f"{type(error).__name__}: {error}")
            pause = min(max(pause, LOOK_SECONDS) * 2, LONGEST_PAUSE_SECONDS)
        except Exception as error:  # noqa: BLE001 # whatever it is, the next round is tried
            log.get_logger().error("signing failed", exc_info=error)
            pause = LONGEST_PAUSE_SECONDS
        await _wait(queued, pause)


async def _wait(queued: asyncio.Event, pause: float) -> None:
    """A hint shortens the pause between looks, not one after a failure."""
    if pause > LOOK_SECONDS:
        await asyncio.sleep(pause)
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(pause):
            await queued.wait()


async def tasks_sign_once(db: Database, signer: TaskSigner, hints: Hints, *, look: bool = True) -> list[UUID]:
    """One round; the nodes that got something. `look`: whether there is anything at all, before beginning to write."""
    if look:
        async with db.read(EVERYTHING) as tx:
            if not await store.anything_to_sign(tx):
                return []
    async with db.transaction(EVERYTHING, "system:nodes.sign") as tx:
        nodes = await service.tasks_sign(tx, signer)
    if not nodes:
        return []
    for node_id in nodes:
        hints.tell(subject_of(node_id))
    SIGNED.inc()
    return nodes


async def _require_key(db: Database, signer: TaskSigner) -> None:
    async with db.transaction(EVERYTHING, "system:nodes.sign") as tx:
        if not await service.key_ensure(tx, signer):
            raise service.KeyRefused("this worker's task-signing key was followed by another: give it the new one")


@timer("nodes.task_deadlines", every_seconds=2)
async def tasks_overdue(parts: Parts) -> None:
    """What a node does not tell ends at its deadline."""
    async with parts.get(Database).transaction(EVERYTHING, "system:nodes.task_deadlines") as tx:
        for task in await service.tasks_overdue(tx):
            OVERDUE.labels(task.state).inc()


@timer("nodes.task_retention", every_seconds=3600, deadline_seconds=300)
async def tasks_prune(parts: Parts) -> None:
    policy = parts.get(PolicyReader)  # type: ignore[type-abstract] # the part is whatever implements it
    before = floor_id(clock.now() - timedelta(days=policy.number("retention.task_days")))
    while True:
        async with parts.get(Database).transaction(EVERYTHING, "system:nodes.task_retention") as tx:
            if await store.prune(tx, before=before, limit=PRUNED) < PRUNED:
                return
