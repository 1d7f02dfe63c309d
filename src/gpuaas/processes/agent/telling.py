"""What has to be told about tasks: phases as they come, and each result until it is accepted.

Always holds: a result leaves the disk only when the control plane has it or will never take it; a task's phases go
before its result; phases are news, so the oldest are dropped when nobody listens."""

import asyncio
from collections import deque
from http import HTTPStatus
from uuid import UUID

from gpuaas.client.agent import AgentApi
from gpuaas.client.errors import ApiError, ClientError
from gpuaas.contracts.tasks.base import Outcome, Phase, Report
from gpuaas.kit import log
from gpuaas.processes.agent.backoff import REFUSED_SECONDS, Backoff
from gpuaas.processes.agent.task_log import Accepted, Ended, TaskLog

PHASES_AT_ONCE = 50
PHASES_KEPT = 200
REFUSALS_KEPT = 100
_WAIT = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS})
_UNREADABLE = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY})


class Telling:
    def __init__(self, api: AgentApi, tasks: TaskLog) -> None:
        self._api = api
        self._tasks = tasks
        self._phases: dict[UUID, deque[Phase]] = {}
        self._refusals: dict[UUID, Report] = {}
        self._news = asyncio.Event()
        self._backoff = Backoff()

    def phase(self, task_id: UUID, phase: Phase) -> None:
        self._phases.setdefault(task_id, deque(maxlen=PHASES_KEPT)).append(phase)
        self._news.set()

    def refusal(self, task_id: UUID, report: Report) -> None:
        """Of an order that was not ours to remember: told if it can be, forgotten with the process."""
        if len(self._refusals) < REFUSALS_KEPT:
            self._refusals[task_id] = report
            self._news.set()

    def wake(self) -> None:
        self._news.set()

    async def run(self) -> None:
        while True:
            if not self._tasks.results and not self._phases and not self._refusals:
                self._news.clear()
                await self._news.wait()
            try:
                await self._tell_phases()
                await self._tell_refusals()
                await self._tell_results()
                self._backoff.reset()
            except ApiError as error:
                refused = error.status in _WAIT
                await asyncio.sleep(error.retry_after or self._backoff.next(REFUSED_SECONDS / 4 if refused else 0.0))
            except ClientError:
                await asyncio.sleep(self._backoff.next())

    async def _tell_phases(self) -> None:
        for task_id in list(self._phases):
            waiting = self._phases[task_id]
            while waiting:
                batch = [waiting.popleft() for _ in range(min(PHASES_AT_ONCE, len(waiting)))]
                try:
                    await self._api.phases(task_id, batch)
                except ApiError as error:
                    if error.status in _WAIT or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                        waiting.extendleft(reversed(batch))
                        raise
                    waiting.clear()  # nobody wants to know
                except ClientError:
                    waiting.extendleft(reversed(batch))
                    raise
            if not waiting:
                del self._phases[task_id]

    async def _tell_refusals(self) -> None:
        for task_id, report in list(self._refusals.items()):
            try:
                await self._api.result(task_id, report)
            except ApiError as error:
                if error.status in _WAIT or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise
            del self._refusals[task_id]

    async def _tell_results(self) -> None:
        for task_id, report in list(self._tasks.results.items()):
            try:
                await self._api.result(task_id, report)
            except ApiError as error:
                if not await self._given_up(task_id, report, error):
                    raise
                continue
            await self._tasks.write(Accepted(task_id))

    async def _given_up(self, task_id: UUID, report: Report, error: ApiError) -> bool:
        """Whether trying again would change nothing; then the result leaves, or is replaced by one that says why."""
        if error.status in _WAIT or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return False
        log.get_logger().warning("a result is not wanted", task_id=str(task_id), status=error.status, code=error.code)
        if error.status in _UNREADABLE and report.code != "result_refused":
            plain = Report(
                outcome=Outcome.FAILED,
                code="result_refused",
                started_at=report.started_at,
                ended_at=report.ended_at,
                reason=f"it ended as {report.outcome}, but its report was refused: {error.message}"[:2000],
            )
            await self._tasks.write(Ended(task_id, plain))
        else:
            await self._tasks.write(Accepted(task_id))
        return True
