"""How a step asks nodes: one task for each, signed and fetched like any other; the run waits as a row until they end.

Always holds: a step that runs twice asks once; a node that failed is asked again while its step has tries left; what
was asked for and is not wanted any more is cancelled before anything is taken back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from gpuaas.contracts.http.nodes import TaskState
from gpuaas.contracts.tasks.base import Task, TaskResult
from gpuaas.domains.nodes.tasks import service as tasks
from gpuaas.domains.nodes.tasks.models import TaskRow
from gpuaas.domains.nodes.tasks.states import OPEN
from gpuaas.flows.story import Scene, StepFailed, Wait
from gpuaas.kit.errors import Conflict
from gpuaas.kit.ids import NodeId, TaskId

R = TypeVar("R", bound=TaskResult)
TRIES = 3


@dataclass(frozen=True)
class Answer:
    task: TaskRow
    result: TaskResult

    def of(self, kind: type[R]) -> R:
        if not isinstance(self.result, kind):
            raise TypeError(f"task {self.task.id} answered with {type(self.result).__name__}")
        return self.result


async def ask(
    scene: Scene, name: str, orders: Mapping[NodeId, Task], *, tries: int = TRIES, accept: frozenset[str] = frozenset()
) -> dict[NodeId, Answer] | Wait:
    """The answers of all nodes, or that they are waited for. A node that says no for good, or for the last time, fails
    the step; failures with a code in `accept` are left out of the answers instead."""
    asked: dict[str, list[str]] = scene.memo.setdefault(f"asked.{name}", {})
    given_up = _given_up_before(scene, name)
    answers: dict[NodeId, Answer] = {}
    waits = False
    for node_id, order in orders.items():
        told = asked.setdefault(str(node_id), [])
        task = await tasks.task_get(scene.tx, TaskId(UUID(told[-1]))) if told else None
        used = given_up.get(str(node_id), 0)
        if task is not None and task.state in OPEN:
            waits = True
        elif task is not None and len(told) <= used:  # an operator wants to know anew
            waits = await _order(scene, node_id, order, told)
        elif task is not None and task.state is TaskState.DONE:
            result = tasks.result_of(task, await tasks.task_story(scene.tx, task.id))
            if result is None:
                raise StepFailed("no_result", f"{order.TYPE} on {node_id} has no result")
            answers[node_id] = Answer(task, result)
        elif task is not None and task.code in accept:
            continue
        elif task is not None and (task.state is TaskState.REFUSED or len(told) - used >= tries):
            raise StepFailed(task.code or task.state, f"{order.TYPE}: {task.reason or task.state}")
        else:
            waits = await _order(scene, node_id, order, told)
    return Wait() if waits else answers


async def _order(scene: Scene, node_id: NodeId, order: Task, told: list[str]) -> bool:
    """Asked, and noted: it is waited for."""
    made = await tasks.task_create(scene.tx, node_id, order, subject_id=scene.subject_id)
    told.append(str(made.id))
    return True


async def forget(scene: Scene, name: str) -> None:
    """What a step asked for is not wanted any more. A node that has begun finishes, or not: the undo comes after it."""
    last = [TaskId(UUID(told[-1])) for told in scene.memo.get(f"asked.{name}", {}).values()]
    await tasks.tasks_hold(scene.tx, last)  # who tells of one holds it, then wants the run: in that order
    for task_id in last:
        task = await tasks.task_get(scene.tx, task_id)
        if task.state in OPEN and task.cancel_requested_at is None:
            try:
                await tasks.task_cancel(scene.tx, task.id, "its flow takes back what it did")
            except Conflict:
                continue  # it ended meanwhile


def _given_up_before(scene: Scene, name: str) -> dict[str, int]:
    """How often each node had been asked when an operator last had the flow tried again: those do not count."""
    retried = scene.memo.get("retried", 0)
    known: dict[str, Any] = scene.memo.setdefault(f"tries.{name}", {"retried": retried, "used": {}})
    if known["retried"] != retried:
        told = scene.memo.get(f"asked.{name}", {})
        known.update(retried=retried, used={node_id: len(tasks) for node_id, tasks in told.items()})
    used: dict[str, int] = known["used"]
    return used


def asked_nodes(scene: Scene, name: str) -> list[NodeId]:
    """Which nodes a step has asked, whether or not anything is held there any more."""
    return [NodeId(UUID(node_id)) for node_id in scene.memo.get(f"asked.{name}", {})]


async def refused_by(scene: Scene, name: str) -> set[NodeId]:
    """Which of them have said no last."""
    said_no = (TaskState.FAILED, TaskState.REFUSED)
    refused = set()
    for node_id, told in scene.memo.get(f"asked.{name}", {}).items():
        if told and (await tasks.task_get(scene.tx, TaskId(UUID(told[-1])))).state in said_no:
            refused.add(NodeId(UUID(node_id)))
    return refused


def asked_for(scene: Scene, name: str) -> bool:
    return bool(scene.memo.get(f"asked.{name}"))
