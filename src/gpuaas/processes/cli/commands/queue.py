"""Commands on the waiting line: who waits for GPUs, since when, and when they may start."""

from uuid import UUID

from gpuaas.client import queue
from gpuaas.client.api import decode
from gpuaas.client.call import Call
from gpuaas.contracts.http.allocations import PrioritySet, QueueEntry, QueueView
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ORG, PROJECT, REASON, Argument, Group
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

GROUP = Group("queue", "Who waits for GPUs, and who comes before whom.")
_MOST = 100
COLUMNS: list[Column[QueueEntry]] = [
    ("sku", lambda entry: entry.sku_name),
    ("place", lambda entry: f"{entry.place.position} of {entry.place.waiting}"),
    ("name", lambda entry: entry.name),
    ("gpus", lambda entry: f"{entry.gpu_count} × {entry.node_count}" if entry.node_count > 1 else entry.gpu_count),
    ("priority", lambda entry: entry.priority),
    ("gpu hours lately", lambda entry: f"{entry.share:.1f}"),
    ("since", lambda entry: entry.waiting_since),
    ("may start", lambda entry: entry.place.estimated_start or "cannot be told"),
    ("allocation", lambda entry: entry.allocation_id),
]


@GROUP.command(
    "list",
    PROJECT,
    ORG,
    Argument("--everybody", flag=True, help="Of all organisations. For operators."),
    summary="List the requests that wait, with their places.",
    about="Order: priority, then fair share (less used lately comes first), then age.",
)
def queue_list(run: Run, *, project: str | None, org: str | None, everybody: bool) -> None:
    call: Call[QueueView] = (
        queue.queue_list() if everybody else queue.project_queue_list(names.project(run, project, org))
    )
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    run.out.table(COLUMNS, decode(call, body).entries, empty="Nobody waits.")


@GROUP.command(
    "priority",
    Argument("allocation", help="The id of a request that waits."),
    Argument("priority", help="From -100 to 100; more comes first, 0 is everybody's. Write -- before a negative one."),
    REASON,
    summary="Move a request before or behind the others. For operators.",
    examples=['gpuaas queue priority 0198… 10 --reason "a deadline"'],
)
def allocation_priority_set(run: Run, *, allocation: str, priority: str, reason: str) -> None:
    known = names.as_id(allocation)
    if known is None:
        raise UsageError(f"{allocation!r} is not an id.", "See them with: gpuaas queue list --everybody")
    wanted = PrioritySet(priority=_priority(priority), reason=reason)
    run.show(queue.allocation_priority_set(UUID(str(known)), wanted), COLUMNS)


def _priority(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 4 and abs(int(text)) <= _MOST):
        raise UsageError(f"{text!r} is not a priority.", f"A number from -{_MOST} to {_MOST}.")
    return int(text)
