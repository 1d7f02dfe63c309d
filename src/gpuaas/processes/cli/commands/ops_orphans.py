"""What agents observe and the books do not say, or the other way round."""

from gpuaas.client import orphans
from gpuaas.contracts.http.allocations import OrphanReclaim, OrphanView
from gpuaas.contracts.http.base import PageQuery
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ALL, LIMIT, REASON, YES, Argument, Group
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

GROUP = Group("orphans", "Accounts and leases on nodes that the books do not know, and those the nodes lack.")
_COLUMNS: list[Column[OrphanView]] = [
    ("id", lambda one: one.id),
    ("node", lambda one: one.node_name),
    ("what", lambda one: one.kind.value.replace("_", " ")),
    ("name", lambda one: one.name),
    ("detail", lambda one: one.detail),
    ("since", lambda one: one.first_seen_at),
    ("last seen", lambda one: one.last_seen_at),
    ("allocation", lambda one: one.allocation_id),
    ("task", lambda one: one.task_id),
]


@GROUP.command("list", LIMIT, ALL, summary="List what differs between nodes and books now.")
def orphan_list(run: Run, *, limit: int, all: bool) -> None:
    empty = "Nothing differs: what agents observe is what the books say."
    run.table(orphans.orphan_list(PageQuery()), _COLUMNS, limit=limit, all=all, empty=empty)


@GROUP.command(
    "reclaim",
    Argument("orphan", help="Its id."),
    REASON,
    YES,
    summary="Bring the node to what the books say. Nothing a live allocation has is touched.",
    about="Takes away the account or lease nobody has, or makes the one an active allocation lacks.",
)
def orphan_reclaim(run: Run, *, orphan: str, reason: str, yes: bool) -> None:
    found = names.as_id(orphan)
    if found is None:
        raise UsageError(f"{orphan!r} is not an id.", "See them with: gpuaas ops orphans list")
    run.confirm(f"Bring the node to what the books say about {orphan}?", yes=yes)
    run.show(orphans.orphan_reclaim(found, OrphanReclaim(reason=reason)), _COLUMNS)
