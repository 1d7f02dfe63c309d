"""What is on and in a node: its slots, one per GPU, and the tasks its agent was given."""

import time
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from gpuaas.client import fleet, platform
from gpuaas.client.api import decode
from gpuaas.client.call import Call
from gpuaas.client.errors import ApiError
from gpuaas.contracts.http.nodes import (
    NodeListQuery,
    NodeReason,
    NodeSlotView,
    NodeView,
    SlotListQuery,
    SlotQuarantine,
    TaskDetail,
    TaskListQuery,
    TaskState,
    TaskView,
)
from gpuaas.kit import clock
from gpuaas.kit.paging import MAX_LIMIT
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ALL, LIMIT, REASON, Argument, Group
from gpuaas.processes.cli.failures import Exit, Stop, UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.quantities import gib
from gpuaas.processes.cli.run import Run
from gpuaas.processes.cli.text import clean, clean_json

T = TypeVar("T")
GROUP = Group("nodes", "Slots and tasks; a part of the group of nodes.")
WAIT = Argument("--wait", flag=True, help="Wait until the node has done it; ends with 1 if it did not go well.")
PATIENCE_SECONDS = 900.0
_LOOK_SECONDS = 0.5
_ENDED = frozenset(
    {TaskState.DONE, TaskState.FAILED, TaskState.REFUSED, TaskState.CANCELLED, TaskState.TIMED_OUT, TaskState.EXPIRED}
)
_NODE = Argument("node", help="Its name or id.", completes="node")
_OF_NODE = Argument("node", optional=True, help="Only of this node, by name or id.", completes="node")
_GPU = Argument("gpu", help="The GPU: its number on the node, or its serial number.")
_TASK = Argument("task", help="The task's id.")
_SLOT_COLUMNS: list[Column[NodeSlotView]] = [
    ("node", lambda slot: slot.node_name),
    ("gpu", lambda slot: slot.index),
    ("serial", lambda slot: slot.serial),
    ("model", lambda slot: f"{slot.model}, {gib(slot.memory_bytes)}"),
    ("sellable", lambda slot: slot.sellable),
    ("strikes", lambda slot: slot.strikes),
    ("numa", lambda slot: slot.numa),
    ("nvme", lambda slot: slot.nvme),
    ("fabric", lambda slot: slot.fabric),
    ("address", lambda slot: slot.address),
    ("why not", lambda slot: slot.why_not),
]
_TASK_COLUMNS: list[Column[TaskView]] = [
    ("id", lambda task: task.id),
    ("task", lambda task: f"{task.type} v{task.version}"),
    ("state", lambda task: f"{task.state.value}, to be cancelled" if _stopping(task) else task.state.value),
    ("since", lambda task: task.state_since),
    ("number", lambda task: task.sequence),
    ("reason", lambda task: task.reason),
    ("created", lambda task: task.created_at),
]


def _task_detail(run: Run) -> list[Column[TaskView]]:
    """With names beside ids."""
    return [
        *_TASK_COLUMNS,
        ("code", lambda task: task.code),
        ("node", lambda task: _named(_name_of_node(run, task.node_id), task.node_id)),
        ("subject", lambda task: _named(_name_of_subject(run, task), task.subject_id)),
        ("asked by", lambda task: _name_of_asker(run, task.created_by)),
        ("due", lambda task: task.due_at),
        ("delivered", lambda task: task.delivered_at),
        ("started", lambda task: task.started_at),
        ("ended", lambda task: task.ended_at),
        ("correlation id", lambda task: task.correlation_id),
    ]


def _named(name: str, id: UUID | None) -> str:
    return f"{name} ({id})" if name else str(id or "")


def _name_of_node(run: Run, node_id: UUID) -> str:
    return _told(lambda: run.api.send(fleet.node_get(node_id)).name)


def _name_of_subject(run: Run, task: TaskView) -> str:
    """A task is about a GPU of its node, or about a version of the agent; or about the node itself."""
    if task.subject_id is None or task.subject_id == task.node_id:
        return ""
    slots = _told(lambda: list(run.api.items(fleet.slot_list(SlotListQuery(node_id=task.node_id, limit=MAX_LIMIT)))))
    return next((f"GPU {slot.index}, {slot.serial}" for slot in slots or [] if slot.id == task.subject_id), "")


def _name_of_asker(run: Run, who: str) -> str:
    kind, _, word = who.partition(":")
    user_id = names.as_id(word) if kind == "user" else None
    if user_id is None:
        return who
    return _named(_told(lambda: run.api.send(platform.user_get(user_id)).email), user_id)


def _told(ask: Callable[[], T]) -> T | Any:
    """What the API says, or nothing: a name is a courtesy, and what it names may be gone."""
    try:
        return ask()
    except ApiError:
        return ""


def _stopping(task: TaskView) -> bool:
    return task.cancel_requested and task.state not in _ENDED


def node_of(run: Run, word: str) -> NodeView:
    """The node of that name or id."""
    known = names.as_id(word)
    if known is not None:
        return run.api.send(fleet.node_get(known))
    listed = run.api.items(fleet.node_list(NodeListQuery(limit=MAX_LIMIT)))
    return names.pick(word, listed, lambda node: node.name, "node", "See them with: gpuaas nodes list")


def node_id(run: Run, word: str) -> UUID:
    return names.as_id(word) or node_of(run, word).id


def ordered(run: Run, call: Call[TaskView], *, wait: bool) -> TaskDetail | None:
    """Give a node a task, and say how to follow it, or how it ended; what came of it, if it was waited for."""
    if not wait:
        task = run.show(call, _task_detail(run))
        if not run.out.json:
            run.out.note(f"Follow it with: gpuaas nodes task {task.id}")
        return None
    task = run.api.send(call)
    look, until = fleet.task_get(task.id), clock.monotonic() + PATIENCE_SECONDS
    while True:
        body = run.api.send_raw(look)
        found = decode(look, body)
        if found.state in _ENDED:
            break
        if clock.monotonic() > until:
            raise Stop(f"The task is still {found.state.value}.", f"Look later: gpuaas nodes task {task.id}")
        time.sleep(_LOOK_SECONDS)
    _show_task(run, body, found, whole=False)
    if found.state is not TaskState.DONE:
        raise Stop(f"The task is {found.state.value}: {found.reason or found.code or 'no reason was told'}.")
    return found


# ── slots ────────────────────────────────────────────────────────────────────────────────────────


@GROUP.command(
    "slots",
    _OF_NODE,
    Argument("--sellable", choices=("yes", "no"), help="Only those that can be sold now, or that cannot."),
    LIMIT,
    ALL,
    summary="List GPUs, each with whether it can be sold now and, if not, why.",
)
def slot_list(run: Run, *, node: str | None, sellable: str | None, limit: int, all: bool) -> None:
    query = SlotListQuery(
        node_id=None if node is None else node_id(run, node), sellable=None if sellable is None else sellable == "yes"
    )
    empty = "No GPU is known yet: nodes are inspected when they are enrolled." if sellable is None else "No GPU is so."
    run.table(fleet.slot_list(query), _SLOT_COLUMNS, limit=limit, all=all, empty=empty)


@GROUP.command("quarantine", _NODE, _GPU, REASON, summary="Take one GPU out of sale. Its siblings stay.")
def slot_quarantine(run: Run, *, node: str, gpu: str, reason: str) -> None:
    run.show(fleet.slot_quarantine(_slot(run, node, gpu), SlotQuarantine(reason=reason)), _SLOT_COLUMNS)


@GROUP.command(
    "return",
    _NODE,
    Argument("gpu", optional=True, help="One GPU: its number on the node, or its serial. Default: the whole node."),
    REASON,
    WAIT,
    summary="Bring a node or one GPU back from quarantine: it is checked under load, and sold if that passes.",
)
def node_return(run: Run, *, node: str, gpu: str | None, reason: str, wait: bool) -> None:
    why = NodeReason(reason=reason)
    if gpu is None:
        ordered(run, fleet.node_return(node_id(run, node), why), wait=wait)
    else:
        ordered(run, fleet.slot_return(_slot(run, node, gpu), why), wait=wait)


def _slot(run: Run, node: str, word: str) -> UUID:
    known = names.as_id(word)
    if known is not None:
        return known
    listed = list(run.api.items(fleet.slot_list(SlotListQuery(node_id=node_id(run, node), limit=MAX_LIMIT))))
    by_serial = [slot.id for slot in listed if slot.serial == word]
    # A GPU that was replaced leaves a slot of its number behind: the number means the one that is there.
    by_number = [slot.id for slot in listed if str(slot.index) == word and slot.present]
    by_number = by_number or [slot.id for slot in listed if str(slot.index) == word]
    found = by_serial or by_number
    if not found:
        raise Stop(f"{node} has no GPU {word!r}.", f"See them with: gpuaas nodes slots {node}", Exit.MISSING)
    if len(found) > 1:
        raise UsageError(f"{node} has had {len(found)} GPUs of number {word}.", "Give the serial number instead.")
    return found[0]


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────


@GROUP.command(
    "tasks",
    _OF_NODE,
    Argument("--state", choices=tuple(TaskState), help="Only those."),
    Argument("--type", help="Only of this type, such as node.inspect."),
    LIMIT,
    ALL,
    summary="List what nodes were told to do, the newest first.",
)
def task_list(run: Run, *, node: str | None, state: str | None, type: str | None, limit: int, all: bool) -> None:
    query = TaskListQuery(
        node_id=None if node is None else node_id(run, node),
        state=None if state is None else TaskState(state),
        type=type,
    )
    columns = _TASK_COLUMNS
    if node is None and not run.out.json:
        known = {one.id: one.name for one in run.api.items(fleet.node_list(NodeListQuery(limit=MAX_LIMIT)))}
        columns = [*_TASK_COLUMNS, ("node", lambda task: known.get(task.node_id, task.node_id))]
    run.table(fleet.task_list(query), columns, limit=limit, all=all, empty="No task is so.")


@GROUP.command("task", _TASK, summary="Show a task: its steps, its result and its log.")
def task_get(run: Run, *, task: str) -> None:
    call = fleet.task_get(_task_id(task))
    body = run.api.send_raw(call)
    _show_task(run, body, decode(call, body))


@GROUP.command("cancel", _TASK, REASON, summary="Cancel a task: at once, or by asking its node to stop.")
def task_cancel(run: Run, *, task: str, reason: str) -> None:
    run.show(fleet.task_cancel(_task_id(task), NodeReason(reason=reason)), _task_detail(run))


def _task_id(word: str) -> UUID:
    found = names.as_id(word)
    if found is None:
        raise UsageError(f"{word!r} is not an id.", "See them with: gpuaas nodes tasks")
    return found


def _show_task(run: Run, body: bytes, task: TaskDetail, *, whole: bool = True) -> None:
    if run.out.json:
        run.out.raw(body)
        return
    run.out.fields([(name, value(task)) for name, value in _task_detail(run)])
    if task.phases:
        run.out.line("")
        run.out.table(
            [
                ("at", lambda phase: phase.at),
                ("step", lambda phase: phase.name),
                ("detail", lambda phase: phase.detail),
            ],
            task.phases,
            empty="",
        )
    if not whole:
        run.out.note(f"Its result: gpuaas nodes task {task.id}")
        return
    for title, told in (("arguments", task.arguments), ("result", task.result)):
        if told:
            written = msgspec.json.format(msgspec.json.encode(told)).decode()
            run.out.out.write(f"\n{title}: {clean_json(written)}\n")
    if task.log:
        run.out.out.write("\nlog:\n" + "".join(f"  {clean(line)}\n" for line in task.log.splitlines()))
