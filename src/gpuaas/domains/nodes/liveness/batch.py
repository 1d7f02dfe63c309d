"""Heartbeats of this process, gathered for a moment and written together: a thousand nodes cost a few statements a
second. Whoever beats is answered when his beat is durable."""

import asyncio
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.agent import Desired, Heartbeat
from gpuaas.domains.nodes.liveness import service
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.errors import Missing
from gpuaas.ports.policy import PolicyReader

FLUSH_SECONDS = 0.2
MAX_BATCH = 1000
BEATS_PER_LEASE = 3
_EVERYTHING = Sight(PLATFORM)


class Heartbeats:
    def __init__(self, db: Database, policy: PolicyReader) -> None:
        self._db = db
        self._policy = policy
        self._beats: dict[UUID, Heartbeat] = {}
        self._answers: dict[UUID, asyncio.Future[Desired]] = {}
        self._flushing: set[asyncio.Task[None]] = set()

    async def beat(self, node_id: UUID, beat: Heartbeat) -> Desired:
        """What is wanted of the node now. Of several beats of one node in a moment, the last one counts."""
        service.heartbeat_check(beat)
        if not self._answers:
            asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._start_flush)
        answer = self._answers.get(node_id)
        if answer is None:
            answer = self._answers[node_id] = asyncio.get_running_loop().create_future()
        self._beats[node_id] = beat
        if len(self._beats) >= MAX_BATCH:
            self._start_flush()
        return await asyncio.shield(answer)

    def _start_flush(self) -> None:
        if not self._answers:
            return
        beats, self._beats = self._beats, {}
        answers, self._answers = self._answers, {}
        task = asyncio.create_task(self._flush(beats, answers))
        self._flushing.add(task)
        task.add_done_callback(self._flushing.discard)

    async def _flush(self, beats: dict[UUID, Heartbeat], answers: dict[UUID, asyncio.Future[Desired]]) -> None:
        try:
            async with self._db.transaction(_EVERYTHING, "system:nodes.heartbeat") as tx:
                noted = await service.heartbeats_note(tx, beats)
        except Exception as error:  # noqa: BLE001 # each who waits hears it, and beats again
            for answer in answers.values():
                _fail(answer, error)
            return
        pause = self._policy.number("nodes.lease_seconds") / BEATS_PER_LEASE
        for node_id, answer in answers.items():
            row = noted.get(node_id)
            if row is None:
                _fail(answer, Missing(Code.NODE_MISSING, "There is no such node."))
            elif not answer.done():
                answer.set_result(Desired(
                    generation=row.generation, cordoned=row.cordoned, drained=row.drained, heartbeat_seconds=pause))


def _fail(answer: asyncio.Future[Desired], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # nobody may wait for it any more; that is no news
