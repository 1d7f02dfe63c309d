"""Runs the steps of flows. Any number of executors may run: each takes what is due and nobody's.

Always holds: one executor acts on a run at a time, and one whose lease ran out can write nothing more (the fence); a
step that fails is tried within its budget, then what was passed is taken back, newest first, or surrendered."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from gpuaas.contracts.http.flows import FlowKind, FlowState
from gpuaas.domains.runs import service as runs
from gpuaas.domains.runs.models import HINT, Outcome, Progress, Run
from gpuaas.domains.runs.states import OPEN
from gpuaas.flows.story import Again, Call, Flow, Scene, Step, StepFailed
from gpuaas.infra.postgres.database import AWAY, TAKEN_BACK, Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit import log, trace
from gpuaas.kit.errors import Fault, Unavailable
from gpuaas.kit.parts import Parts
from gpuaas.ports.hints import Hints

LEASE_SECONDS = 30.0
POLL_SECONDS = 1.0
AT_ONCE = 16
PAUSE_SECONDS = (0.1, 30.0)
INTERRUPTED_SECONDS = 0.2  # until a run is taken again whose step the database took back, or cut off
Probe = Callable[[str, Run, list[str]], Awaitable[None]]
"""Called around each commit with `before` and `after` and the steps in it: where tests let a worker die."""


class NotOurs(Exception):
    """Another worker has the run: nothing of this attempt counts."""


async def _unprobed(moment: str, run: Run, steps: list[str]) -> None: ...


class Executor:
    def __init__(
        self,
        db: Database,
        flows: Mapping[FlowKind, Flow],
        parts: Parts,
        *,
        worker: str,
        lease_seconds: float = LEASE_SECONDS,
        at_once: int = AT_ONCE,
        probe: Probe = _unprobed,
    ) -> None:
        self._db = db
        self._flows = flows
        self._parts = parts
        self._worker = worker
        self._lease = lease_seconds
        self._at_once = at_once
        self._probe = probe
        self._look = asyncio.Event()

    async def run(self, hints: Hints) -> None:
        """Until cancelled. What is under way then is let go by its lease."""
        hints.listen(HINT, lambda _: self._look.set())
        acting: set[asyncio.Task[None]] = set()
        try:
            while True:
                self._look.clear()
                free = self._at_once - len(acting)  # some are taken at a time: each look costs
                for run in await self._take(free if free * 2 >= self._at_once else 0):
                    acting.add(asyncio.create_task(self.advance(run), name=f"{run.kind} {run.subject_id}"))
                looking = asyncio.create_task(self._look.wait())
                waited = {*acting, looking} if len(acting) * 2 <= self._at_once else acting
                done, _ = await asyncio.wait(waited, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                looking.cancel()
                acting -= done
        finally:
            for task in acting:
                task.cancel()

    async def run_due(self) -> int:
        """Take what is due and act on it until it waits or ends; how many runs that were."""
        return len(await asyncio.gather(*(self.advance(run) for run in await self._take(self._at_once))))

    async def _take(self, limit: int) -> list[Run]:
        if limit <= 0:
            return []
        try:
            async with self._db.transaction(Sight(PLATFORM), f"worker:{self._worker}") as tx:
                return await runs.take(tx, self._worker, list(self._flows), lease_seconds=self._lease, limit=limit)
        except Exception as error:  # noqa: BLE001 # whatever it is, nobody else looks after the runs of this worker
            log.get_logger().warning("flows are not looked at", reason=f"{type(error).__name__}: {error}")
        await asyncio.sleep(POLL_SECONDS)
        return []

    async def advance(self, run: Run) -> None:
        """Step by step, until it waits, ends, or is not ours any more."""
        log.correlation_id.set(run.correlation_id)
        trace.enter(run.traceparent)
        numbers, going = itertools.count(1), True
        while going and run.state in OPEN:
            try:
                async with asyncio.timeout(self._lease * 0.8):
                    run, going = await self._attempt(run, next(numbers))
            except NotOurs:
                return
            except (*AWAY, *TAKEN_BACK, Unavailable) as error:
                reason = f"{type(error).__name__}: {error}"
                log.get_logger().warning("a flow is interrupted", kind=run.kind, step=run.step, reason=reason)
                await self._let_go(run)
                return
            except Exception as error:  # noqa: BLE001 # a mistake of ours: tried again when its lease is over
                log.get_logger().error("a flow is interrupted", kind=run.kind, step=run.step, exc_info=error)
                return

    async def _let_go(self, run: Run) -> None:
        """Whether the last step was committed is not known, and need not be: whoever takes the run reads where it
        stands, and from then on nothing of ours counts."""
        try:
            async with self._db.transaction(Sight(PLATFORM), f"worker:{self._worker}") as tx:
                await runs.let_go(tx, run, seconds=INTERRUPTED_SECONDS)
        except Exception as error:  # noqa: BLE001 # then its lease ends by itself
            log.get_logger().warning("a flow is not let go", reason=f"{type(error).__name__}: {error}")

    async def _attempt(self, run: Run, number: int) -> tuple[Run, bool]:
        flow = self._flows[run.kind]
        try:
            return await self._tried(flow, run, number)
        except StepFailed as failure:
            return await self._failed(flow, run, number, failure)

    async def _tried(self, flow: Flow, run: Run, number: int) -> tuple[Run, bool]:
        try:
            if run.state is FlowState.FORWARD:
                return await self._forward(flow, run, number)
            return await self._undo(flow, run, number)
        except (StepFailed, NotOurs, Unavailable, *AWAY, *TAKEN_BACK):
            raise
        except (Again, Fault) as error:
            return await self._again(flow, run, number, getattr(error, "code", "again"), str(error))
        except Exception as error:  # noqa: BLE001 # a step of ours that breaks has its budget too
            return await self._again(flow, run, number, "internal", f"{type(error).__name__}: {error}")

    async def _forward(self, flow: Flow, run: Run, number: int, *, alone: bool = False) -> tuple[Run, bool]:
        """As many steps as pass without waiting, in one commit; where one of them fails, those before it are committed
        first, so that it fails alone."""
        following: Step | None = flow.at(run)
        if run.cancel_requested_at is not None:
            raise StepFailed("cancelled", run.cancel_reason)
        if run.late and following and following.name == run.step:
            raise StepFailed("deadline", f"{run.step} was not done within {following.deadline}")
        outcome = await self._call(flow, run, following.call) if following and following.call else None
        names: list[str] = []
        passed, waits, tried = run.passed, None, False
        try:
            async with self._db.transaction(Sight(run.org_id or PLATFORM), f"flow:{run.kind}") as tx:
                scene = self._scene(flow, run, tx, outcome)
                while following and not waits and (not names or not (alone or following.call)):
                    names.append(following.name)
                    waits = await following.do(scene)
                    passed = passed if waits else [*passed, following.name]
                    following = following if waits else flow.after(passed)
                tried = True
                at = self._standing(run, flow, "", "", Outcome.WAITS if waits else Outcome.PASSED)
                moved = following is not None and following.name != run.step
                at = replace(
                    at,
                    attempted=names,
                    to=FlowState.FORWARD if following else FlowState.DONE,
                    step=following.name if following else names[-1],
                    passed=passed,
                    attempt=0 if moved else at.attempt,
                    memo=scene.memo,
                    wait_seconds=waits.seconds if waits else 0.0,
                    step_seconds=following.deadline.total_seconds() if following and moved else None,
                )
                after = await self._progress(tx, run, at, number)
        except Exception:
            if tried or len(names) < 2:
                raise
            return await self._forward(flow, run, number, alone=True)
        await self._probe("after", run, names)
        return after, not waits

    async def _call(self, flow: Flow, run: Run, call: Call) -> Any:
        async with self._db.read(Sight(run.org_id or PLATFORM)) as tx:
            loaded = await call.load(self._scene(flow, run, tx))
        return await call.act(self._parts, loaded)

    async def _undo(self, flow: Flow, run: Run, number: int) -> tuple[Run, bool]:
        undo = flow.undo_of(run.step)
        if undo is None:
            raise StepFailed("not_undoable", f"{run.step} cannot be taken back")
        if run.late:
            raise StepFailed("deadline", f"{run.step} was not taken back in time")
        async with self._db.transaction(Sight(run.org_id or PLATFORM), f"flow:{run.kind}") as tx:
            scene = self._scene(flow, run, tx)
            waits = await undo(scene)
            at = self._standing(run, flow, run.error_code, run.error, Outcome.WAITS if waits else Outcome.PASSED)
            at = replace(at, memo=scene.memo, wait_seconds=waits.seconds if waits else 0.0, detail="")
            if not waits:
                step = run.passed[-1] if run.passed else run.step
                state = FlowState.UNDOING if run.passed else FlowState.UNDONE
                seconds = _undo_seconds(flow, step)
                at = replace(at, to=state, step=step, passed=run.passed[:-1], step_seconds=seconds)
            after = await self._progress(tx, run, at, number)
        await self._probe("after", run, [run.step])
        return after, not waits

    # when it does not work -------------------------------------------------------------------------------------------
    async def _again(self, flow: Flow, run: Run, number: int, code: str, reason: str) -> tuple[Run, bool]:
        forward = run.state is FlowState.FORWARD
        step = flow.at(run) if forward else flow.named(run.step)
        budget = (step.attempts if forward else step.undo_attempts) if step else 1
        if run.attempt + 1 >= budget or run.late:
            return await self._failed(flow, run, number, StepFailed(code, reason))
        async with self._db.transaction(Sight(run.org_id or PLATFORM), f"flow:{run.kind}") as tx:
            at = self._standing(run, flow, code, reason, Outcome.AGAIN)
            if forward and step and run.step != step.name:
                at = replace(at, step=step.name, step_seconds=step.deadline.total_seconds())
            return await self._progress(tx, run, at, number), False

    async def _failed(self, flow: Flow, run: Run, number: int, failure: StepFailed) -> tuple[Run, bool]:
        """Turn round; having turned round before, surrender."""
        step = flow.at(run).name if run.state is FlowState.FORWARD else run.step
        turned = run.state is FlowState.UNDOING
        code, reason = (run.error_code, run.error) if turned else (failure.code, str(failure))
        async with self._db.transaction(Sight(run.org_id or PLATFORM), f"flow:{run.kind}") as tx:
            at = self._standing(run, flow, code, reason, Outcome.FAILED)
            if not turned:
                at = replace(at, to=FlowState.UNDOING, step=step, step_seconds=_undo_seconds(flow, step))
            else:
                scene = self._scene(flow, run, tx)
                await flow.surrender(scene)
                at = replace(at, to=FlowState.SURRENDERED, memo=scene.memo, detail=str(failure))
            return await self._progress(tx, run, at, number), True

    def _standing(self, run: Run, flow: Flow, code: str, reason: str, outcome: Outcome) -> Progress:
        """Where it stands already, after one more attempt."""
        attempts = {Outcome.AGAIN: run.attempt + 1, Outcome.WAITS: run.attempt}
        return Progress(
            attempted=[flow.at(run).name if run.state is FlowState.FORWARD else run.step],
            to=run.state,
            step=run.step,
            passed=run.passed,
            attempt=attempts.get(outcome, 0),
            memo=_memo(flow, run),
            version=flow.version,
            wait_seconds=pause(run.attempt) if outcome is Outcome.AGAIN else 0.0,
            step_seconds=None,
            error_code=code,
            error=reason,
            outcome=outcome,
            detail=reason,
        )

    async def _progress(self, tx: Tx, run: Run, at: Progress, number: int) -> Run:
        await self._probe("before", run, at.attempted)
        goes_on = at.to in OPEN and at.outcome in (Outcome.PASSED, Outcome.FAILED)
        after = await runs.progress(tx, run, at, number=number, keep=goes_on, lease_seconds=self._lease)
        if after is None:
            now = await runs.run_get(tx, run.id)
            cancelled = now.fence == run.fence and now.state is FlowState.FORWARD and now.cancel_requested_at
            raise StepFailed("cancelled", now.cancel_reason) if cancelled else NotOurs
        return after

    def _scene(self, flow: Flow, run: Run, tx: Tx, outcome: Any = None) -> Scene:
        return Scene(tx, run, _memo(flow, run), self._parts, outcome)


def pause(attempt: int) -> float:
    return float(min(PAUSE_SECONDS[0] * 2**attempt, PAUSE_SECONDS[1]))


def _memo(flow: Flow, run: Run) -> dict[str, Any]:
    memo: dict[str, Any] = msgspec.json.decode(run.memo)
    return flow.upgrade(run.version, memo) if run.step and run.version != flow.version else memo


def _undo_seconds(flow: Flow, name: str) -> float:
    step = flow.named(name)
    return 600.0 if step is None else step.undo_deadline.total_seconds()
