"""The verbs of tasks: create, sign, claim, tell, end, cancel.

Always holds: a node's tasks are numbered without a gap; a task has at most one accepted result, from the node it was
given to; another node's task is as if it were not; whatever a node does not tell, a deadline ends."""

import hashlib
from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.provisioning import TaskEnded, TaskReportedLate
from gpuaas.contracts.http.nodes import TaskState
from gpuaas.contracts.tasks.base import TASK_TYPES, Outcome, Phase, Report, Task, TaskResult
from gpuaas.domains.nodes.plausible import require_plausible, require_plausible_all
from gpuaas.domains.nodes.tasks import store
from gpuaas.domains.nodes.tasks.hinting import TO_SIGN, subject_of
from gpuaas.domains.nodes.tasks.models import Delivered, NewTask, Place, TaskKey, TaskRow, TaskStory
from gpuaas.domains.nodes.tasks.signing import TaskSigner
from gpuaas.domains.nodes.tasks.states import OPEN, S
from gpuaas.domains.runs import service as runs
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit import clock, log, trace
from gpuaas.kit.errors import Conflict, Detail, Missing, Refused
from gpuaas.kit.ids import NodeId, TaskId, new_id

NODES_AT_ONCE = 50
TASKS_AT_ONCE = 200
ENVELOPES_AT_ONCE = 20
KEY_OVERLAP = timedelta(hours=1)
"""How long a key that was followed still signs and is still believed: workers are replaced one by one."""
_MISSING = "There is no such task."

task_get = store.get
task_story = store.story
tasks_hold = store.hold
task_phases = store.phases
task_list = store.list_all
recent_of_types = store.recent_of_types
open_with_prefix = store.open_with_prefix
open_count = store.open_count
nodes_with_work = store.nodes_with_work
sequence_start = store.sequence_start
peek = store.peek
key_names = store.key_names


class KeyRefused(Exception):
    """This worker's key is not one the nodes can come to trust."""


async def task_create(tx: Tx, node_id: UUID, task: Task, *, subject_id: UUID | None = None) -> TaskRow:
    """Ask a node to do something. It is signed and fetched within a moment; the event TaskEnded tells when it ended."""
    tx.hint(TO_SIGN)
    return await store.insert(
        tx,
        TaskId(new_id()),
        NewTask(
            node_id=NodeId(node_id),
            type=task.TYPE,
            version=task.VERSION,
            subject_id=subject_id,
            arguments=msgspec.json.encode(task).decode(),
            deadline_seconds=task.DEADLINE_SECONDS,
            correlation_id=log.correlation_id.get(),
            traceparent=trace.traceparent(),
        ),
    )


async def task_cancel(tx: Tx, task_id: TaskId, reason: str) -> TaskRow:
    """Before it was fetched, it is cancelled at once; after that, its node is asked and its report says what came."""
    task = await store.get(tx, task_id)
    if task.state in (S.QUEUED, S.READY):
        try:
            ended = await store.move(
                tx, task_id, to=S.CANCELLED, frm=(S.QUEUED, S.READY), reason=reason, code="cancelled"
            )
        except Conflict:
            pass  # it was fetched meanwhile
        else:
            await _tell_end(tx, ended)
            return ended
    asked = await store.ask_cancel(tx, task_id)
    if asked is None:
        raise Conflict(Code.TASK_ENDED, "The task has ended.")
    tx.hint(subject_of(asked.node_id))
    return asked


# the signer, in the worker -------------------------------------------------------------------------------------------
async def tasks_sign(tx: Tx, signer: TaskSigner) -> list[UUID]:
    """Sign what is queued, as much as one transaction should; the nodes that have something to fetch now."""
    nodes = await store.nodes_to_sign(tx, signer.key_id, limit=NODES_AT_ONCE)
    if not nodes:
        return []
    tasks = await store.to_sign(tx, list(nodes), limit=TASKS_AT_ONCE)
    now, last, sealed = clock.now(), dict(nodes), []
    for task in tasks:
        last[task.node_id] += 1
        sealed.append(signer.sign(task, sequence=last[task.node_id], now=now))
    if await store.signed(tx, signer.key_id, sealed, last) != len(tasks):
        raise RuntimeError("a task that was held for signing was moved")
    return list({task.node_id for task in tasks})


async def key_ensure(tx: Tx, signer: TaskSigner) -> bool:
    """Make this worker's key one that nodes can trust: the first one by enrolment, any other by its predecessor's word.
    False: the key was followed by another and may not sign any more."""
    found = await store.key(tx, signer.key_id)
    if found is None:
        others = await store.keys(tx)
        statement = None
        if others:
            before = signer.previous
            if before is None or before.key_id not in {key.key_id for key in others}:
                raise KeyRefused(
                    "another task-signing key is in use: give it as GPUAAS_TASK_SIGNING_KEY_PREVIOUS to follow it"
                )
            statement = before.vouch_for(signer, clock.now())
        if await store.key_add(tx, signer.key_id, signer.public_key, statement) and others:
            await store.keys_retire(tx, but=signer.key_id, overlap=KEY_OVERLAP)
        found = await store.key(tx, signer.key_id)
    if found is None:
        raise KeyRefused("another worker has put a task-signing key first: all must have the same one")
    return found.valid_until is None or found.valid_until > clock.now()


async def trust(tx: Tx) -> tuple[list[TaskKey], list[str]]:
    """The keys that are believed now, and all statements by which each came to follow another."""
    return await store.keys(tx), await store.statements(tx)


# the agent -----------------------------------------------------------------------------------------------------------
async def claim(tx: Tx, claims: Collection[Place]) -> dict[Place, tuple[list[str], list[UUID]]]:
    """Hand over what is ready, in order of sequence, and name what is not wanted any more; for each who claims."""
    first: dict[UUID, int] = {}
    for node_id, sequence in claims:
        first[node_id] = min(sequence, first.get(node_id, sequence))
    delivered: dict[UUID, list[Delivered]] = {}
    for one in await store.deliver(tx, first, limit=ENVELOPES_AT_ONCE):
        delivered.setdefault(one.node_id, []).append(one)
    cancelled: dict[UUID, list[UUID]] = {}
    for node_id, task_id in await store.cancels(tx, list(first)):
        cancelled.setdefault(node_id, []).append(task_id)
    return {
        (node_id, sequence): (
            [one.envelope for one in delivered.get(node_id, ()) if one.sequence >= sequence],
            cancelled.get(node_id, []),
        )
        for node_id, sequence in claims
    }


async def phases_tell(tx: Tx, node_id: UUID, task_id: TaskId, phases: list[Phase]) -> None:
    for phase in phases:
        require_plausible(phase.at, "phases.at")
    task = await _given_to(tx, node_id, task_id)
    if task.state not in OPEN:
        return
    await store.start(tx, task_id, node_id)
    await store.known(tx, node_id, task.sequence or 0)  # holds the node's row: those who tell at once are counted too
    await store.phases_add(tx, task_id, phases)


async def result_tell(tx: Tx, node_id: UUID, task_id: TaskId, report: Report) -> TaskRow:
    """How it ended. The first report is accepted; the same again has the same answer; another one is refused."""
    for at in (report.ended_at, report.started_at):
        if at is not None:
            require_plausible(at, "ended_at")
    task = await _given_to(tx, node_id, task_id)
    result, digest = checked_result(task, report), report_digest(report)
    if report.outcome is not Outcome.REFUSED:  # an order it does not believe is not one it remembers
        await store.known(tx, node_id, task.sequence or 0)
    to = TaskState(report.outcome.value)
    ended = await store.accept(tx, task_id, node_id, report, to=to, digest=digest, result=result)
    if ended is not None:
        await _tell_end(tx, ended)
        return ended
    late = await store.accept_late(tx, task_id, node_id, report, digest=digest, result=result)
    if late is not None:
        tx.emit(
            TaskReportedLate(task_id=late.id, node_id=late.node_id, task_type=late.type, outcome=report.outcome),
            subject_id=late.id,
        )
        return late
    told = await store.story(tx, task_id)
    if told.report_hash != digest:
        raise Conflict(Code.TASK_REPORTED, "Another result of this task was accepted. Results are accepted once.")
    return await store.get(tx, task_id)


def report_digest(report: Report) -> bytes:
    return hashlib.sha256(msgspec.json.encode(report)).digest()


def checked_result(task: TaskRow, report: Report) -> str | None:
    """The result as its task's type says it must be; one that is not is refused, and the task's deadline ends it."""
    raw = bytes(report.result)
    if report.outcome is not Outcome.DONE and raw == b"null":
        return None
    kind = TASK_TYPES[task.type, task.version].RESULT
    try:
        decoded = msgspec.json.decode(raw, type=kind)
        require_plausible_all(msgspec.to_builtins(decoded, builtin_types=(datetime,)), "result")
        return msgspec.json.encode(decoded).decode()
    except msgspec.MsgspecError as error:
        raise Refused(
            Code.REQUEST_INVALID,
            f"The result is not one of {task.type}.",
            details=[Detail("result", str(error)[:200])],
        ) from error


def result_of(task: TaskRow, story: TaskStory) -> TaskResult | None:
    """What a task answered, as its type."""
    kind = TASK_TYPES[task.type, task.version].RESULT
    return None if story.result is None else msgspec.json.decode(story.result, type=kind)


def arguments_of(task: TaskRow) -> Task:
    return msgspec.json.decode(task.arguments, type=TASK_TYPES[task.type, task.version])


async def _given_to(tx: Tx, node_id: UUID, task_id: TaskId) -> TaskRow:
    """The task, if this node was given it; one of another node, or not handed over yet, is as if it were not."""
    task = await store.of_node(tx, task_id, node_id)
    if task is None or task.delivered_at is None:
        raise Missing(Code.TASK_MISSING, _MISSING)
    return task


# ending without a word -----------------------------------------------------------------------------------------------
async def tasks_overdue(tx: Tx) -> list[TaskRow]:
    moved = await store.move_overdue(tx, limit=TASKS_AT_ONCE)
    for task in moved:
        await _tell_end(tx, task)
    return moved


async def tasks_restart(tx: Tx, node_id: UUID) -> None:
    """The node has a new agent, which knows nothing of what the old one was given."""
    for task in await store.abandon(tx, node_id, "the node was enrolled again while it had the task"):
        await _tell_end(tx, task)
    await store.sequence_restart(tx, node_id)


async def _tell_end(tx: Tx, task: TaskRow) -> None:
    if task.subject_id is not None:
        await runs.wake(tx, task.subject_id)
    tx.emit(
        TaskEnded(
            task_id=task.id,
            node_id=task.node_id,
            task_type=task.type,
            state=task.state,
            subject_id=task.subject_id,
        ),
        subject_id=task.id,
    )
