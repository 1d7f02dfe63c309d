"""Allocations looked at: listed, shown, explained, followed. What changes them is in `allocation_life`."""

from gpuaas.client import allocations
from gpuaas.client.api import decode
from gpuaas.contracts.http.allocations import (
    AllocationDetail,
    AllocationQuery,
    AllocationState,
    AllocationView,
    EstimateQuery,
    EstimateView,
    HeldGpu,
    PlatformAllocationQuery,
    TaskOnNode,
    TimelineMoment,
)
from gpuaas.contracts.http.base import PageQuery
from gpuaas.processes.cli import names
from gpuaas.processes.cli.commands import allocation_life, allocation_stop
from gpuaas.processes.cli.commands.allocation_life import ALLOCATION, GPUS, HOURS, NODES, SKU
from gpuaas.processes.cli.commands.node_tasks import node_id
from gpuaas.processes.cli.commands.skus import sku_id
from gpuaas.processes.cli.declare import ALL, LIMIT, ORG, PROJECT, Argument, Group
from gpuaas.processes.cli.help import fold
from gpuaas.processes.cli.naming_allocations import allocation_of
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.phases import ENDED, wait_until
from gpuaas.processes.cli.quantities import money
from gpuaas.processes.cli.run import Run
from gpuaas.processes.cli.spans import relative, span
from gpuaas.processes.cli.text import clean

GROUP = Group("allocations", "GPUs of your own: ask for them, use them, give them back.")
_WIDTH = 96


def gpus_of(it: AllocationView) -> str:
    nodes = f"{it.node_count} × " if it.node_count > 1 else ""
    return f"{nodes}{it.gpu_count} × {it.gpu_model}"


def _ends(it: AllocationView) -> str:
    if it.state in ENDED:
        return f"ended {relative(it.ended_at)}"
    if it.state is AllocationState.STOPPED:
        return relative(it.due_at)
    if it.state is not AllocationState.ACTIVE:
        return ""
    return f"idle, {relative(it.reclaim_at)}" if it.reclaim_at is not None else relative(it.expires_at)


def _cost(it: AllocationView) -> str:
    """So far; what stands still says so."""
    cost = money(it.currency, it.cost_micros)
    return f"{cost}, not charged now" if it.not_charged_since is not None else cost


def _runway(seconds: int | None) -> str:
    return "" if seconds is None else f"the balance lasts {span(seconds)}"


_COLUMNS: list[Column[AllocationView]] = [
    ("name", lambda it: it.name),
    ("state", lambda it: f"{it.state.value}, degraded" if it.degraded else it.state.value),
    ("since", lambda it: relative(it.state_since)),
    ("gpus", gpus_of),
    ("sku", lambda it: it.sku_name),
    ("ends", _ends),
    ("per hour", lambda it: money(it.currency, it.micros_per_hour)),
    ("cost", _cost),
    ("tags", lambda it: it.tags),
    ("by", lambda it: it.requested_by),
    ("id", lambda it: it.id),
]
_PLATFORM_COLUMNS: list[Column[AllocationView]] = [
    *_COLUMNS,
    ("organisation", lambda it: it.org_id),
    ("project", lambda it: it.project_id),
]
_GPU_COLUMNS: list[Column[HeldGpu]] = [
    ("node", lambda gpu: gpu.node_name),
    ("gpu", lambda gpu: gpu.index),
    ("model", lambda gpu: gpu.model),
    ("serial", lambda gpu: gpu.serial),
    ("numa", lambda gpu: gpu.numa),
    ("healthy", lambda gpu: gpu.healthy),
    ("detail", lambda gpu: gpu.detail),
]
_MOMENT_COLUMNS: list[Column[TimelineMoment]] = [
    ("at", lambda moment: moment.at),
    ("phase", lambda moment: moment.phase),
    ("lasted", lambda moment: "" if moment.seconds is None else _lasted(moment.seconds)),
    ("told by", lambda moment: moment.source),
    ("detail", lambda moment: moment.detail),
]
_TASK_COLUMNS: list[Column[TaskOnNode]] = [
    ("node", lambda task: task.node_name),
    ("task", lambda task: task.type),
    ("state", lambda task: task.state),
    ("since", lambda task: relative(task.created_at)),
    ("took", lambda task: "" if task.ended_at is None else _lasted((task.ended_at - task.created_at).total_seconds())),
    ("reason", lambda task: task.reason),
    ("id", lambda task: task.id),
]


def _lasted(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else span(seconds)  # a minute


@GROUP.command(
    "estimate",
    SKU,
    GPUS,
    NODES,
    HOURS,
    PROJECT,
    ORG,
    summary="Say what an allocation would cost and whether it fits now. Nothing is reserved.",
    examples=["gpuaas allocations estimate --sku h200-8 --gpus 4 --hours 8"],
)
def allocation_estimate(
    run: Run, *, sku: str, gpus: int, nodes: int, hours: int | None, project: str | None, org: str | None
) -> None:
    query = EstimateQuery(sku_id=sku_id(run, sku), gpu_count=gpus, node_count=nodes, lease_hours=hours)
    run.show(allocations.allocation_estimate(names.project(run, project, org), query), _estimate_fields())


def _estimate_fields() -> list[Column[EstimateView]]:
    return [
        ("per hour", lambda it: money(it.currency, it.micros_per_hour)),
        ("for its lease", lambda it: f"{money(it.currency, it.micros_for_lease)}, {it.lease_hours} h"),
        ("set aside", lambda it: f"{money(it.currency, it.hold_micros)}, {it.hold_minutes} min of it"),
        ("available", lambda it: money(it.currency, it.available_micros)),
        ("runway", lambda it: _runway(it.runway_seconds) if it.affordable else "too little: gpuaas billing top-up"),
        ("fits now", lambda it: it.fits_now),
        ("how", lambda it: it.summary),
        ("in the queue", lambda it: f"place {it.queue.position} of {it.queue.waiting}" if it.queue else "no need"),
        (
            "may start",
            lambda it: "now" if it.queue is None else relative(it.queue.estimated_start) or "cannot be told",
        ),
        ("left of quota", lambda it: "no limit" if it.quota_left is None else f"{it.quota_left} GPUs"),
    ]


@GROUP.command(
    "list",
    Argument("--state", choices=tuple(AllocationState), help="Only those."),
    Argument("--live", flag=True, help="Only those that have not ended."),
    Argument("--sku", help="Only of this SKU, by name or id.", completes="sku"),
    Argument("--tag", help="Only those with this tag."),
    Argument("--everybody", flag=True, help="Of all organisations, or of --org. For operators."),
    Argument("--node", help="Only those that hold GPUs of this node. With --everybody.", completes="node"),
    PROJECT,
    ORG,
    LIMIT,
    ALL,
    summary="List allocations, the newest first.",
)
def allocation_list(
    run: Run,
    *,
    state: str | None,
    live: bool,
    sku: str | None,
    tag: str | None,
    everybody: bool,
    node: str | None,
    project: str | None,
    org: str | None,
    limit: int,
    all: bool,
) -> None:
    wanted = None if state is None else AllocationState(state)
    kind = None if sku is None else sku_id(run, sku)
    if everybody or node is not None:
        over_all = PlatformAllocationQuery(
            state=wanted,
            live=live,
            sku_id=kind,
            tag=tag,
            org_id=None if org is None else names.org(run, org),
            node_id=None if node is None else node_id(run, node),
        )
        call = allocations.allocation_platform_list(over_all)
        run.table(call, _PLATFORM_COLUMNS, limit=limit, all=all, empty="No allocation is so.")
        return
    query = AllocationQuery(state=wanted, live=live, sku_id=kind, tag=tag)
    narrowed = state or live or sku or tag
    empty = "No allocation is so." if narrowed else "No allocations yet. Ask: gpuaas allocations create --sku NAME"
    call = allocations.allocation_list(names.project(run, project, org), query)
    run.table(call, _COLUMNS, limit=limit, all=all, empty=empty)


@GROUP.command("show", ALLOCATION, PROJECT, ORG, summary="Show an allocation: its GPUs, how to log in, what is next.")
def allocation_get(run: Run, *, allocation: str, project: str | None, org: str | None) -> None:
    call = allocations.allocation_get(*allocation_of(run, allocation, project, org))
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    _show(run, decode(call, body))


def _show(run: Run, it: AllocationDetail) -> None:
    told = [(name, value(it)) for name, value in _COLUMNS if name not in {"ends", "tags"}]
    more: list[tuple[str, object]] = [
        ("next", f"{it.next_action} ({relative(it.due_at)})" if it.due_at else it.next_action),
        ("degraded", it.degraded_reason),
        ("stopped for", "" if it.stop_reason is None else it.stop_reason.value),
        ("isolation", it.isolation),
        ("region", it.region),
        ("active since", it.active_at),
        ("charged for", f"{span(it.usable_seconds)} of use" if it.usable_seconds else ""),
        ("not charged since", it.not_charged_since),
        ("not charged for", it.not_charged_reason),
        ("set aside", money(it.currency, it.held_micros) if it.held_micros else ""),
        ("runway", _runway(it.runway_seconds)),
        ("lease ends", it.expires_at),
        ("never beyond", it.ends_at),
        ("reclaimed, if idle", it.reclaim_at),
        ("given back by", f"{it.released_by}: {it.release_reason}" if it.released_by else ""),
        ("failed", f"{it.failure.reason} ({it.failure.code})" if it.failure else ""),
        ("in the queue", f"place {it.queue.position} of {it.queue.waiting}. {it.queue.reason}" if it.queue else ""),
        ("may start", it.queue.estimated_start if it.queue else None),
        ("tags", it.tags),
        ("certificates", it.certificate_ids),
    ]
    run.out.fields([*told, *((name, value) for name, value in more if value not in (None, "", []))])
    if it.gpus:
        run.out.line("")
        columns = _GPU_COLUMNS if any(gpu.detail for gpu in it.gpus) else _GPU_COLUMNS[:-1]
        run.out.table(columns, it.gpus, empty="")
    if it.connections:
        run.out.line("")
        for connection in it.connections:
            run.out.line(connection.ssh_command)


@GROUP.command(
    "explain",
    ALLOCATION,
    PROJECT,
    ORG,
    summary="Explain an allocation: why it is as it is, what happens next, what it costs.",
)
def allocation_explain(run: Run, *, allocation: str, project: str | None, org: str | None) -> None:
    call = allocations.allocation_explain(*allocation_of(run, allocation, project, org))
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    found = decode(call, body)
    for line in fold(clean(found.summary), _WIDTH):
        run.out.line(line)
    for one in found.explanations:
        run.out.line("")
        run.out.line(one.question)
        for line in fold(clean(one.answer), _WIDTH - 2):
            run.out.line(f"  {line}")


@GROUP.command(
    "timeline",
    ALLOCATION,
    Argument("-f", "--follow", flag=True, help="Go on as things happen, until it has ended; Ctrl-C stops."),
    PROJECT,
    ORG,
    summary="Show what happened to an allocation, in order, with how long each phase took.",
)
def allocation_timeline(run: Run, *, allocation: str, follow: bool, project: str | None, org: str | None) -> None:
    place = allocation_of(run, allocation, project, org)
    if follow and not run.out.json:
        wait_until(run, *place, frozenset())
        return
    call = allocations.allocation_timeline(*place)
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    run.out.table(_MOMENT_COLUMNS, decode(call, body).moments, empty="Nothing has happened yet.")
    it = run.api.send(allocations.allocation_get(*place))
    told = f"Cost so far: {_cost(it)}; set aside: {money(it.currency, it.held_micros)}"
    run.out.line(f"{told}; {_runway(it.runway_seconds)}." if it.runway_seconds is not None else f"{told}.")


@GROUP.command(
    "tasks",
    ALLOCATION,
    Argument("--logs", flag=True, help="With what each task wrote."),
    PROJECT,
    ORG,
    LIMIT,
    ALL,
    summary="List what was done on the allocation's nodes, on our order.",
)
def allocation_task_list(
    run: Run, *, allocation: str, logs: bool, project: str | None, org: str | None, limit: int, all: bool
) -> None:
    call = allocations.allocation_task_list(*allocation_of(run, allocation, project, org), PageQuery())
    found = run.table(call, _TASK_COLUMNS, limit=limit, all=all, empty="Nothing was done on a node yet.")
    if logs and not run.out.json:
        for task in found:
            if task.log:
                run.out.line("")
                run.out.line(f"{task.type} on {task.node_name}:")
                for line in task.log.splitlines():
                    run.out.line(f"  {line}")


GROUP.children |= allocation_life.GROUP.children | allocation_stop.GROUP.children
GROUP.children = {name: GROUP.children[name] for name in ("create", *GROUP.children) if name in GROUP.children}
