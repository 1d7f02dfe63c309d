"""The verbs of liveness: take heartbeats in, notice silence.

Always holds: a node is online only within its lease; a silent one is unknown, never free; each change is told once."""

import asyncio
import re
from collections.abc import Mapping
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.provisioning import NodeLost, NodeRecovered, NodeUnknown
from gpuaas.contracts.http.agent import Desired, Heartbeat
from gpuaas.contracts.http.nodes import Liveness
from gpuaas.domains.nodes.liveness import store
from gpuaas.domains.nodes.liveness.models import Noted
from gpuaas.domains.nodes.plausible import require_plausible
from gpuaas.domains.nodes.tasks import service as tasks
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit.errors import Detail, Missing, Refused
from gpuaas.ports.policy import PolicyReader

FLUSH_SECONDS = 0.2
MAX_BATCH = 1000
BEATS_PER_LEASE = 3
_EVERYTHING = Sight(PLATFORM)
_LOGIN = re.compile(r"^[a-z][a-z0-9_-]{0,31}\Z")


def heartbeat_check(beat: Heartbeat) -> None:
    """Refuse what no agent of ours would say."""
    require_plausible(beat.sent_at, "sent_at")
    if not all(_LOGIN.match(login) for login in beat.accounts):
        raise Refused(
            Code.REQUEST_INVALID,
            "accounts are the names of accounts of ours.",
            details=[Detail("accounts", "not a login")],
        )
    if not all(serial.isprintable() for serials in beat.leases.values() for serial in serials):
        raise Refused(
            Code.REQUEST_INVALID,
            "leases name GPUs by their serial numbers.",
            details=[Detail("leases", "not a serial number")],
        )


async def heartbeats_note(tx: Tx, beats: Mapping[UUID, Heartbeat]) -> dict[UUID, Noted]:
    """Nodes that are not in the answer are not in service."""
    for node in await store.woken(tx, beats):
        tx.emit(
            NodeRecovered(node_id=node.node_id, from_liveness=node.before, rebooted=node.rebooted),
            subject_id=node.node_id,
        )
    return {row.node_id: row for row in await store.beat(tx, beats)}


async def silence_note(tx: Tx, *, lease_seconds: int, lost_seconds: int) -> tuple[list[UUID], list[UUID]]:
    """Nodes that became unknown and lost just now."""
    unknown = await store.fade(tx, frm=Liveness.ONLINE, to=Liveness.UNKNOWN, seconds=lease_seconds)
    lost = await store.fade(tx, frm=Liveness.UNKNOWN, to=Liveness.LOST, seconds=max(lost_seconds, lease_seconds))
    for node_id in unknown:
        tx.emit(NodeUnknown(node_id=node_id), subject_id=node_id)
    for node_id in lost:
        tx.emit(NodeLost(node_id=node_id), subject_id=node_id)
    return unknown, lost


class Heartbeats:
    """Heartbeats of this process, gathered for a moment and written together: a thousand nodes cost a few statements a
    second. Whoever beats is answered when his beat is durable."""

    def __init__(self, db: Database, policy: PolicyReader) -> None:
        self._db = db
        self._policy = policy
        self._beats: dict[UUID, Heartbeat] = {}
        self._answers: dict[UUID, asyncio.Future[Desired]] = {}
        self._flushing: set[asyncio.Task[None]] = set()

    async def beat(self, node_id: UUID, beat: Heartbeat) -> Desired:
        """What is wanted of the node now. Of several beats of one node in a moment, the last one counts."""
        heartbeat_check(beat)
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
                noted, keys = await heartbeats_note(tx, beats), await tasks.key_names(tx)
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
                answer.set_result(
                    Desired(
                        generation=row.generation,
                        cordoned=row.cordoned,
                        drained=row.drained,
                        heartbeat_seconds=pause,
                        task_keys=keys,
                    )
                )


def _fail(answer: asyncio.Future[Desired], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # nobody may wait for it any more; that is no news
