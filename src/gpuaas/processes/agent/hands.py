"""The tasks in the agent's hands: taken when verified, run with their deadline, ended with one report.

Always holds: what is taken is on the disk first; a task interrupted by a restart is run again, because every verb of a
host looks at what is there first; a task that keeps interrupting the agent is given up; one task, one report."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import msgspec

from gpuaas.contracts.tasks.base import Order, Outcome, Phase, Report, Task
from gpuaas.contracts.tasks.catalogue import AgentUpdate
from gpuaas.kit import log
from gpuaas.ports.host import HostFailed, PhaseTeller
from gpuaas.processes.agent.orders import Known, Refusal, Turn, accept, read_order, task_of
from gpuaas.processes.agent.task_log import Ended, Passed, TaskLog, Took, Tried
from gpuaas.processes.agent.tasks import Asked, Tools, lane, perform
from gpuaas.processes.agent.telling import Telling
from gpuaas.processes.agent.trust import Trust

ATTEMPTS = 3
"""How often a task is begun; each time but the first because the agent ended in the middle."""
GRACE_SECONDS = 10.0
LONGEST_SECONDS = 3600
AT_ONCE = 16
_REFUSALS_KEPT = 500


@dataclass
class Lane:
    """Whose turn it is, and how many wait for theirs or have it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    tasks: int = 0


class Hands:
    def __init__(
        self,
        node_id: UUID,
        tasks: TaskLog,
        tools: Tools,
        telling: Telling,
        now: Callable[[], datetime],
    ) -> None:
        self._node_id = node_id
        self._tasks = tasks
        self._tools = tools
        self._telling = telling
        self._now = now
        self._running: dict[UUID, asyncio.Task[None]] = {}
        self._performing: dict[UUID, asyncio.Task[Report]] = {}
        self._lanes: dict[str, Lane] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._quiet = asyncio.Condition()
        self._updating = False
        self._unwanted: set[UUID] = set()
        self._disbelieved: dict[UUID | None, None] = {}

    def resume(self) -> None:
        """Go on with what a restart interrupted."""
        for task_id, held in list(self._tasks.hand.items()):
            order = msgspec.json.decode(held.payload, type=Order)
            try:
                self._begin(order, task_of(order))
            except Refusal as refusal:  # this version does not know what an older one took
                report = self._report(Outcome.FAILED, None, code=refusal.code, reason=str(refusal))
                self._running[task_id] = asyncio.create_task(self._end(task_id, report))

    async def take(self, envelope: str, trust: Trust) -> bool:
        """Verify one envelope and take it; False when it was refused in a way that a newer trust might change."""
        try:
            order, payload = read_order(envelope.encode(), trust.task_keys)
            task = accept(order, Turn(self._node_id, self._tasks.next_sequence, self._tasks.seen), self._now())
        except Known:
            self._telling.wake()
            return True
        except Refusal as refusal:
            if refusal.code == "bad_signature":
                return False
            await self._refuse(refusal)
            return True
        if order.sequence > self._tasks.next_sequence:
            log.get_logger().warning("orders did not come", first=self._tasks.next_sequence, last=order.sequence - 1)
        await self._tasks.write(Took(order.sequence, order.task_id, payload.decode()))
        self._begin(order, task)
        return True

    async def disbelieve(self, envelope: str) -> None:
        """An envelope nobody we trust signed: say so once for each id it claims, and remember nothing of it."""
        try:
            read_order(envelope.encode(), {})
        except Refusal as refusal:
            if refusal.task_id not in self._disbelieved and refusal.task_id not in self._tasks.seen:
                self._disbelieved[refusal.task_id] = None
                if len(self._disbelieved) > _REFUSALS_KEPT:
                    del self._disbelieved[next(iter(self._disbelieved))]
                await self._refuse(refusal, remember=False)

    def cancel(self, unwanted: Iterable[UUID]) -> None:
        for task_id in unwanted:
            if task_id in self._running:
                self._unwanted.add(task_id)
            if task_id in self._performing:
                self._performing[task_id].cancel()

    async def stop(self) -> None:
        """Let go of everything as it is; the next start goes on from there."""
        for running in self._running.values():
            running.cancel()
        if self._running:
            await asyncio.wait(self._running.values(), timeout=GRACE_SECONDS)

    async def _refuse(self, refusal: Refusal, *, remember: bool = True) -> None:
        log.get_logger().warning("refused an order", code=refusal.code, why=str(refusal), task_id=str(refusal.task_id))
        report = self._report(Outcome.REFUSED, None, code=refusal.code, reason=str(refusal))
        if refusal.task_id is None:
            if refusal.sequence:
                await self._tasks.write(Passed(refusal.sequence))
        elif remember and refusal.code != "other_node":
            await self._tasks.write(Ended(refusal.task_id, report, refusal.sequence))
        else:
            # Not one of ours as far as we can know: told while we run, and not held against its id.
            self._telling.refusal(refusal.task_id, report)
        self._telling.wake()

    def _begin(self, order: Order, task: Task) -> None:
        running = asyncio.create_task(self._run(order, task), name=f"{order.type} {order.task_id}")
        self._running[order.task_id] = running
        running.add_done_callback(lambda _: self._running.pop(order.task_id, None))

    async def _run(self, order: Order, task: Task) -> None:
        log.correlation_id.set(order.correlation_id)
        turn = self._lanes.setdefault(lane(task), Lane())
        turn.tasks += 1
        try:
            async with turn.lock, self._slots, self._room(task):
                report = await self._tried(order, task)
        finally:
            turn.tasks -= 1
            if not turn.tasks:
                del self._lanes[lane(task)]
        await self._end(order.task_id, report)

    async def _tried(self, order: Order, task: Task) -> Report:
        attempts = self._tasks.hand[order.task_id].attempts + 1
        if order.task_id in self._unwanted:
            return self._report(Outcome.CANCELLED, None, code="cancelled", reason="cancelled before it began")
        if attempts > ATTEMPTS and not isinstance(task, AgentUpdate):
            reason = f"the agent ended {ATTEMPTS} times in the middle of it"
            return self._report(Outcome.FAILED, None, code="agent_interrupted", reason=reason)
        await self._tasks.write(Tried(order.task_id, attempts))
        return await self._performed(order, task)

    async def _end(self, task_id: UUID, report: Report) -> None:
        await self._tasks.write(Ended(task_id, report))
        self._unwanted.discard(task_id)
        self._telling.wake()

    @contextlib.asynccontextmanager
    async def _room(self, task: Task) -> AsyncIterator[None]:
        """An update runs alone: it waits for the others, and they for it."""
        alone = isinstance(task, AgentUpdate)
        async with self._quiet:
            await self._quiet.wait_for(lambda: not self._updating and not (alone and self._performing))
            self._updating = alone
        try:
            yield
        finally:
            async with self._quiet:
                if alone:
                    self._updating = False
                self._quiet.notify_all()

    async def _performed(self, order: Order, task: Task) -> Report:
        started = self._now()
        work = asyncio.create_task(self._perform(order, task, started))
        self._performing[order.task_id] = work
        try:
            seconds = min(max(order.deadline_seconds, 1), LONGEST_SECONDS)
            await asyncio.wait({work}, timeout=seconds)
            late = not work.done()
            if late:
                work.cancel()
                await asyncio.wait({work}, timeout=GRACE_SECONDS)
            if late:
                return self._report(Outcome.TIMED_OUT, started, code="deadline", reason=f"not done within {seconds} s")
            if work.cancelled():
                return self._report(Outcome.CANCELLED, started, code="cancelled", reason="cancelled while it ran")
            return work.result()
        finally:
            work.cancel()
            del self._performing[order.task_id]

    async def _perform(self, order: Order, task: Task, started: datetime) -> Report:
        try:
            tell = self._teller(order.task_id)
            await tell("started", "")
            result = await perform(Asked(order.task_id, order.subject_id, self._tools, tell), task)
        except HostFailed as failure:
            return self._report(Outcome.FAILED, started, code=failure.code, reason=str(failure))
        except Exception as error:  # noqa: BLE001 - whatever a host does, the story has an end
            log.get_logger().error("a task failed", task=order.type, exc_info=error)
            reason = f"{type(error).__name__}: {error}"
            return self._report(Outcome.FAILED, started, code="agent_failed", reason=reason)
        return Report(
            outcome=Outcome.DONE,
            started_at=started,
            ended_at=self._now(),
            result=msgspec.Raw(msgspec.json.encode(result)),
        )

    def _teller(self, task_id: UUID) -> PhaseTeller:
        async def tell(name: str, detail: str) -> None:
            self._telling.phase(task_id, Phase(name=name[:60], at=self._now(), detail=detail[:500]))

        return tell

    def _report(self, outcome: Outcome, started: datetime | None, *, reason: str, code: str = "") -> Report:
        return Report(
            outcome=outcome,
            reason=log.scrub_text(reason)[:2000],
            code=code[:60],
            started_at=started,
            ended_at=self._now(),
        )
