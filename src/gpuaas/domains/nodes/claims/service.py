"""Claims of agents: each looks, waits outside of any transaction, and takes what has come in a short one.

A hint wakes one who waits within milliseconds; one question a second asks for all of them together, so that a lost hint
costs a second and five hundred idle agents cost nothing."""

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.agent import Claim, Claimed
from gpuaas.contracts.tasks.base import Report
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.domains.nodes.tasks import service as tasks
from gpuaas.domains.nodes.tasks.hinting import SUBJECT
from gpuaas.domains.nodes.tasks.models import Peek, Place, TaskRow
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit import clock, log
from gpuaas.kit.errors import Conflict, Missing
from gpuaas.kit.gathering import Gathering
from gpuaas.kit.ids import TaskId
from gpuaas.ports.hints import Hints

NOTHING = Claimed(envelopes=[], cancelled=[])
ROLLED_BACK = "agent_state_rolled_back"
AHEAD = "agent_ahead_of_control_plane"
TWO_AGENTS = "two_agents"
DISPLACED_SECONDS = 1.0
"""Two agents with one certificate take each other's place for ever; this is how fast."""
_EVERYTHING = Sight(PLATFORM)
LOOK_SECONDS = 1.0


class Waiter:
    """One claim that waits. A newer claim of the same node takes its place: the older one's connection may be dead."""

    __slots__ = ("_event", "displaced")

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.displaced = False

    def wake(self) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """Until woken; False: the time is up."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


class TaskWaiters:
    """All claims of this process. Those that look, or take, in one moment do so in one statement."""

    def __init__(self, db: Database, hints: Hints) -> None:
        self._db = db
        self._peeks: Gathering[Place, None, Peek] = Gathering(self._peek_all)
        self._takes: Gathering[Place, None, Claimed] = Gathering(self._take_all)
        self._waiting: dict[UUID, Waiter] = {}
        self._closed = False
        hints.listen(SUBJECT + "*", self._hinted)

    def enter(self, node_id: UUID) -> Waiter:
        waiter, before = Waiter(), self._waiting.get(node_id)
        self._waiting[node_id] = waiter
        waiter.displaced = self._closed
        if before is not None:
            before.displaced = True
            before.wake()
        return waiter

    @property
    def closed(self) -> bool:
        return self._closed

    def leave(self, node_id: UUID, waiter: Waiter) -> None:
        if self._waiting.get(node_id) is waiter:
            del self._waiting[node_id]

    def wake(self, node_id: UUID) -> None:
        waiter = self._waiting.get(node_id)
        if waiter is not None:
            waiter.wake()

    def close(self) -> None:
        """The program stops: everybody who waits is answered now."""
        self._closed = True
        for waiter in self._waiting.values():
            waiter.displaced = True
            waiter.wake()

    async def peek(self, node_id: UUID, next_sequence: int) -> Peek:
        """What there is for the node; Missing when it is not in service."""
        return await self._peeks.ask((node_id, next_sequence), None)

    async def take(self, node_id: UUID, next_sequence: int) -> Claimed:
        return await self._takes.ask((node_id, next_sequence), None)

    async def _peek_all(self, claims: Collection[Place]) -> Mapping[Place, Peek | Exception]:
        async with self._db.read(_EVERYTHING) as tx:
            found = await tasks.peek(tx, claims)
        return {claim: found.get(claim) or Missing(Code.NODE_MISSING, "There is no such node.") for claim in claims}

    async def _take_all(self, claims: Collection[Place]) -> Mapping[Place, Claimed | Exception]:
        async with self._db.transaction(_EVERYTHING, "system:nodes.claim") as tx:
            taken = await tasks.claim(tx, claims)
        return {claim: Claimed(envelopes=given, cancelled=gone) for claim, (given, gone) in taken.items()}

    async def follow(self) -> None:
        """Until cancelled: what hints did not bring, looking does."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self._waiting:
                continue
            try:
                for node_id in await _to_wake(self._db, list(self._waiting)):
                    self.wake(node_id)
            except Exception as error:  # noqa: BLE001 # the database is away; those who wait will be asked again
                reason = f"{type(error).__name__}: {error}"
                log.get_logger().warning("waiting agents are not looked after", reason=reason)

    def _hinted(self, subject: str) -> None:
        with contextlib.suppress(ValueError):
            self.wake(UUID(subject.removeprefix(SUBJECT)))


async def _to_wake(db: Database, nodes: Collection[UUID]) -> list[UUID]:
    """Those that have something to fetch, and those that are to hear that they are not wanted any more."""
    async with db.read(_EVERYTHING) as tx:
        return [*await tasks.nodes_with_work(tx, list(nodes)), *await registry.nodes_refused(tx, nodes)]


async def claim_wait(db: Database, waiters: TaskWaiters, node_id: UUID, wanted: Claim) -> Claimed:
    until, there = clock.monotonic() + wanted.wait_seconds, False
    waiter, woken = waiters.enter(node_id), False  # one who was woken takes at once; there is nothing to look for
    try:
        while True:
            if not woken:
                found = await waiters.peek(node_id, wanted.next_sequence)
                await _check_memory(db, found)
                there = found.waiting or found.cancels
            if woken or there:
                claimed = await waiters.take(node_id, wanted.next_sequence)
                if claimed.envelopes or claimed.cancelled:
                    return claimed
            if woken:  # for nothing to take: perhaps to hear why
                woken = False
                continue
            remaining = until - clock.monotonic()
            if waiter.displaced and not waiters.closed:
                await asyncio.sleep(min(max(remaining, 0), DISPLACED_SECONDS))
            if remaining <= 0 or waiter.displaced or not await waiter.wait(remaining):
                return NOTHING
            woken = not waiter.displaced
    finally:
        waiters.leave(node_id, waiter)


async def _check_memory(db: Database, found: Peek) -> None:
    """Whether the agent and we remember the same."""
    node_id, next_sequence = found.node_id, found.next_sequence
    if next_sequence <= found.accepted:
        detail = f"the agent asks from {next_sequence} on, and has reported on {found.accepted} before"
        async with db.transaction(_EVERYTHING, f"node:{node_id}") as tx:
            await registry.node_quarantine(tx, node_id, ROLLED_BACK, detail)
        raise Conflict(
            Code.AGENT_STATE_ROLLED_BACK, "The agent has lost its memory. Its node has to be enrolled again."
        )
    if next_sequence > found.last_issued + 1:
        # Ours is the memory that was lost: what we number from here on, the agent takes for a repetition.
        detail = f"the agent has seen task {next_sequence - 1}, of {found.last_issued} given out: enrol it again"
        async with db.transaction(_EVERYTHING, f"node:{node_id}") as tx:
            await registry.node_quarantine(tx, node_id, AHEAD, detail)


async def result_take(db: Database, node_id: UUID, task_id: TaskId, report: Report) -> TaskRow:
    """How a task ended. An agent repeats its word: another result of the same task is another agent's."""
    try:
        async with db.transaction(_EVERYTHING, f"node:{node_id}") as tx:
            return await tasks.result_tell(tx, node_id, task_id, report)
    except Conflict as refused:
        if refused.code == Code.TASK_REPORTED:
            async with db.transaction(_EVERYTHING, f"node:{node_id}") as tx:
                await registry.node_quarantine(tx, node_id, TWO_AGENTS, f"two results of task {task_id}")
        raise
