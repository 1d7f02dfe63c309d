"""Operations on tasks: the agents' (claim, phases, result), and those by which operators look on."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.agent import Reported, TellPhases, TellResult
from gpuaas.contracts.http.base import Done, Page
from gpuaas.contracts.http.nodes import NodeReason, TaskDetail, TaskListQuery, TaskView
from gpuaas.contracts.permissions import P
from gpuaas.domains.nodes.claims.service import result_take
from gpuaas.domains.nodes.tasks import service
from gpuaas.domains.nodes.tasks.views import task_detail, task_view
from gpuaas.infra.http.context import AgentContext, PlatformContext
from gpuaas.infra.http.listing import page
from gpuaas.infra.http.operation import Lane, Wire, operation
from gpuaas.kit.ids import TaskId
from gpuaas.kit.paging import CursorRefused

RESULT_BYTES = 512 * 1024
_LAST = UUID(int=(1 << 128) - 1)


@operation(
    "POST", "/tasks/{task_id}/phases", lane=Lane.DEFAULT, wire=Wire.AGENT, tag="agent", errors=(Code.TASK_MISSING,)
)
async def agent_task_phases(cx: AgentContext, task_id: TaskId, told: TellPhases) -> Done:
    """Tell of a task's steps as they happen. Telling again changes nothing."""
    await service.phases_tell(cx.tx, cx.node_id, task_id, told.phases)
    return Done()


@operation(
    "POST",
    "/tasks/{task_id}/result",
    lane=Lane.DEFAULT,
    wire=Wire.AGENT,
    tag="agent",
    transaction=False,
    body_limit=RESULT_BYTES,
    errors=(Code.TASK_MISSING, Code.TASK_REPORTED),
)
async def agent_task_result(cx: AgentContext, task_id: TaskId, told: TellResult) -> Reported:
    """Tell how a task ended. Accepted once: the same again has the same answer, another one is refused.

    An agent repeats its word: another result is another agent's with the same certificate, and the node is
    quarantined."""
    task = await result_take(cx.db, cx.node_id, task_id, told)
    return Reported(task_id=task.id, state=task.state)


@operation("GET", "/tasks", permission=P.NODES_READ, lane=Lane.DEFAULT, tag="tasks")
async def task_list(cx: PlatformContext, query: TaskListQuery) -> Page[TaskView]:
    """List tasks, the newest first."""
    rows = await service.task_list(
        cx.tx,
        node_id=query.node_id,
        state=query.state,
        type=query.type,
        subject_id=query.subject_id,
        before=_before(cx, query),
        limit=query.limit + 1,
    )
    return page(cx, query, rows, task_view)


@operation(
    "GET", "/tasks/{task_id}", permission=P.NODES_READ, lane=Lane.DEFAULT, tag="tasks", errors=(Code.TASK_MISSING,)
)
async def task_get(cx: PlatformContext, task_id: TaskId) -> TaskDetail:
    """Show a task with its arguments, its steps as they were told, its result and its log."""
    task = await service.task_get(cx.tx, task_id)
    return task_detail(task, await service.task_story(cx.tx, task_id), await service.task_phases(cx.tx, task_id))


@operation(
    "POST",
    "/tasks/{task_id}/cancel",
    permission=P.NODES_MANAGE,
    lane=Lane.ADMIN,
    audit="task.cancel",
    tag="tasks",
    errors=(Code.TASK_MISSING, Code.TASK_ENDED),
)
async def task_cancel(cx: PlatformContext, task_id: TaskId, wanted: NodeReason) -> TaskView:
    """Cancel a task: at once if its node has not fetched it, otherwise its node is asked to stop."""
    return task_view(await service.task_cancel(cx.tx, task_id, wanted.reason))


def _before(cx: PlatformContext, query: TaskListQuery) -> UUID:
    position = cx.cursor_position(query.cursor)
    if position is None:
        return _LAST
    try:
        return UUID(position[0])
    except (IndexError, ValueError) as error:
        raise CursorRefused from error
