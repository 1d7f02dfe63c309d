"""Tasks as operators see them."""

from typing import Any

import msgspec

from gpuaas.contracts.http.nodes import PhaseView, TaskDetail, TaskView
from gpuaas.domains.nodes.tasks.models import PhaseRow, TaskRow, TaskStory
from gpuaas.domains.nodes.tasks.states import OPEN


def task_view(task: TaskRow) -> TaskView:
    return TaskView(**_said(task))


def task_detail(task: TaskRow, story: TaskStory, phases: list[PhaseRow]) -> TaskDetail:
    return TaskDetail(
        **_said(task),
        arguments=msgspec.json.decode(task.arguments),
        log=story.log,
        result=None if story.result is None else msgspec.json.decode(story.result),
        phases=[PhaseView(name=phase.name, at=phase.at, detail=phase.detail) for phase in phases],
    )


def _said(task: TaskRow) -> dict[str, Any]:
    return {
        "id": task.id,
        "node_id": task.node_id,
        "type": task.type,
        "version": task.version,
        "subject_id": task.subject_id,
        "state": task.state,
        "state_since": task.state_since,
        "due_at": task.due_at if task.state in OPEN else None,
        "sequence": task.sequence,
        "cancel_requested": task.cancel_requested_at is not None,
        "reason": task.reason,
        "code": task.code,
        "created_by": task.created_by,
        "created_at": task.created_at,
        "delivered_at": task.delivered_at,
        "started_at": task.started_at,
        "ended_at": task.ended_at,
        "correlation_id": task.correlation_id,
    }
