"""The fleet, node by node: what is wanted of each, what is seen of it, and whether it can be sold."""

from uuid import UUID

import msgspec

from gpuaas.client import fleet, inventory
from gpuaas.client.api import decode
from gpuaas.client.call import Call
from gpuaas.contracts.http.artifacts import NodeAgentUpdate
from gpuaas.contracts.http.inventory import SkuQuery
from gpuaas.contracts.http.nodes import (
    HealthEntry,
    HealthHistoryQuery,
    Liveness,
    NodeCheck,
    NodeCreate,
    NodeCreated,
    NodeHealth,
    NodeListQuery,
    NodeProbe,
    NodeReason,
    NodeState,
    NodeUpdate,
    NodeView,
    Quarantine,
    TaskDetail,
)
from gpuaas.kit.paging import MAX_LIMIT
from gpuaas.processes.cli.commands import node_artifacts, node_tasks, skus
from gpuaas.processes.cli.commands.node_tasks import WAIT, node_id, node_of
from gpuaas.processes.cli.declare import ALL, LIMIT, REASON, YES, Argument, Group, number
from gpuaas.processes.cli.failures import Stop, UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

GROUP = Group("nodes", "GPU hosts: enrol them, look at them, take them out of sale and back.")
_HIGHEST_PORT = 65_535
_NODE = Argument("node", help="Its name or id.", completes="node")
_LABELS = Argument("--label", called="labels", many=True, help="NAME=VALUE; several times.")
_TAGS = Argument("--tag", called="tags", many=True, help="A word; several times.")
_ADDRESS = Argument("--address", help="A name or address of the host.")


def standing(node: NodeView) -> str:
    """What is wanted of it, in a word or two."""
    said = [word for word, on in (("cordoned", node.cordoned), ("drained", node.drained)) if on]
    return ", ".join([node.state.value, *said])


def quarantine_of(found: Quarantine | None) -> str:
    if found is None:
        return ""
    return f"{found.reason}: {found.detail}" if found.detail else found.reason


def columns(sku_names: dict[UUID, str]) -> list[Column[NodeView]]:
    return [
        ("name", lambda node: node.name),
        ("state", standing),
        ("liveness", lambda node: node.liveness),
        ("health", lambda node: node.health),
        ("sellable", lambda node: node.sellable),
        ("gpus", lambda node: f"{node.gpus}/{node.gpus_expected}"),
        ("sku", lambda node: sku_names.get(node.sku_id, node.sku_id)),
        ("region", lambda node: node.region),
        ("accounts", lambda node: len(node.accounts)),
        ("agent", lambda node: node.agent_version),
        ("seen", lambda node: node.last_seen_at or "never"),
        ("id", lambda node: node.id),
    ]


def details(sku_names: dict[UUID, str]) -> list[Column[NodeView]]:
    return [
        *columns(sku_names),
        ("why not sold", lambda node: node.why_not),
        ("quarantine", lambda node: quarantine_of(node.quarantine)),
        ("differs from its SKU", lambda node: node.differences),
        ("who is on it", lambda node: node.accounts),
        ("address", lambda node: node.address),
        ("labels", lambda node: [f"{name}={value}" for name, value in sorted(node.labels.items())]),
        ("tags", lambda node: node.tags),
        ("generation", lambda node: f"{node.generation} wanted, {node.observed_generation} taken over"),
        ("boot", lambda node: node.boot_id),
        ("enrolled", lambda node: node.enrolled_at),
        ("inspected", lambda node: node.inspected_at),
        ("checked", lambda node: node.checked_at),
        ("created", lambda node: node.created_at),
    ]


def sku_names(run: Run) -> dict[UUID, str]:
    """For tables; JSON has the ids."""
    if run.out.json:
        return {}
    return {sku.id: sku.name for sku in run.api.items(inventory.sku_list(SkuQuery(limit=MAX_LIMIT)))}


def _shown(run: Run, call: Call[NodeView]) -> None:
    run.show(call, details(sku_names(run)))


# ── looking ──────────────────────────────────────────────────────────────────────────────────────


@GROUP.command(
    "list",
    Argument("--state", choices=tuple(NodeState), help="Only those."),
    Argument("--liveness", choices=tuple(Liveness), help="Only those."),
    Argument("--health", choices=tuple(NodeHealth), help="Only those."),
    Argument("--region", help="Only in this region."),
    Argument("--sku", help="Only of this SKU, by name or id.", completes="sku"),
    Argument("--label", help="Only with this label: NAME or NAME=VALUE."),
    LIMIT,
    ALL,
    summary="List nodes: how they are, and whether they can be sold.",
    examples=["gpuaas nodes list --health quarantined", "gpuaas nodes list --label rack=r12 -o json"],
)
def node_list(
    run: Run,
    *,
    state: str | None,
    liveness: str | None,
    health: str | None,
    region: str | None,
    sku: str | None,
    label: str | None,
    limit: int,
    all: bool,
) -> None:
    query = NodeListQuery(
        state=None if state is None else NodeState(state),
        liveness=None if liveness is None else Liveness(liveness),
        health=None if health is None else NodeHealth(health),
        region=region,
        sku_id=None if sku is None else skus.sku_id(run, sku),
        label=label,
    )
    empty = "There are no nodes. Make the first: gpuaas nodes create NAME --sku SKU"
    if query != NodeListQuery():
        empty = "No node is so."
    run.table(fleet.node_list(query), columns(sku_names(run)), limit=limit, all=all, empty=empty)


@GROUP.command("show", _NODE, summary="Show a node, and why it can or cannot be sold.")
def node_get(run: Run, *, node: str) -> None:
    _shown(run, fleet.node_get(node_id(run, node)))


_HEALTH_COLUMNS: list[Column[HealthEntry]] = [
    ("at", lambda entry: entry.at),
    ("what", lambda entry: entry.kind),
    ("result", lambda entry: "ok" if entry.good else "failed"),
    ("gpu", lambda entry: entry.serial or "the host"),
    ("code", lambda entry: entry.code),
    ("detail", lambda entry: entry.detail),
]


@GROUP.command(
    "health",
    _NODE,
    Argument("--serial", help="Only of this GPU."),
    LIMIT,
    ALL,
    summary="List what was found of a node's health: checks, faults, quarantines, returns.",
)
def node_health_list(run: Run, *, node: str, serial: str | None, limit: int, all: bool) -> None:
    call = fleet.node_health_list(node_id(run, node), HealthHistoryQuery(serial=serial))
    run.table(
        call, _HEALTH_COLUMNS, limit=limit, all=all, empty="Nothing was checked yet. Run: gpuaas nodes check NODE"
    )


# ── enrolling ────────────────────────────────────────────────────────────────────────────────────


@GROUP.command(
    "create",
    Argument("name", help="Lower-case letters, digits and dashes."),
    Argument("--sku", required=True, help="What it is sold as, by name or id.", completes="sku"),
    Argument("--region", help="Where it is. Default: its SKU's."),
    _ADDRESS,
    _LABELS,
    _TAGS,
    summary="Create a node, and print the command that enrols its machine. The command is shown once.",
    about="Run the command on the machine within the hour. Nothing else has to be opened there: its agent calls us.",
    examples=["gpuaas nodes create gpu-17 --sku h200-8 --label rack=r12"],
)
def node_create(
    run: Run, *, name: str, sku: str, region: str | None, address: str | None, labels: list[str], tags: list[str]
) -> None:
    found = skus.sku_of(run, sku)
    wanted = NodeCreate(
        name=name,
        region=region or found.region,
        sku_id=found.id,
        address=address or "",
        labels=labels_of(labels),
        tags=tags,
    )
    _invite(run, fleet.node_create(wanted))


@GROUP.command(
    "reenrol",
    _NODE,
    REASON,
    YES,
    summary="Have a node enrolled again, after its machine or agent was lost. Its certificates end now.",
)
def node_reenrol(run: Run, *, node: str, reason: str, yes: bool) -> None:
    found = node_id(run, node)
    run.confirm(f"Enrol {node} again? Its agent is shut out until the new command was run on the machine.", yes=yes)
    _invite(run, fleet.node_reenrol(found, NodeReason(reason=reason)))


def _invite(run: Run, call: Call[NodeCreated]) -> None:
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    made = decode(call, body)
    run.out.fields([("name", made.node.name), ("id", made.id), ("until", made.expires_at)])
    if made.command is None:
        run.out.note("The command was shown before. Get another: gpuaas nodes reenrol NODE --reason …")
        return
    run.out.line("")
    run.out.line(made.command)
    run.out.note("Run this on the machine, once. It is not shown again.")
    if made.command.endswith("--plain-http"):
        run.out.note("This address has no TLS: whoever is between can read the token, and can pretend to be us.")


@GROUP.command(
    "update",
    _NODE,
    _LABELS,
    _TAGS,
    Argument("--no-labels", flag=True, help="Take all labels off."),
    Argument("--no-tags", flag=True, help="Take all tags off."),
    _ADDRESS,
    Argument("--version", help="Have its agent become this published version.", completes="agent_version"),
    WAIT,
    summary="Change a node's labels, tags or address (those said replace those it has), or its agent's version.",
    about="An agent that is not healthy in its new version within a minute comes back in the old one, and says why.",
    examples=["gpuaas nodes update gpu-17 --label rack=r12", "gpuaas nodes update gpu-17 --version 1.4.2 --wait"],
)
def node_update(
    run: Run,
    *,
    node: str,
    labels: list[str],
    tags: list[str],
    no_labels: bool,
    no_tags: bool,
    address: str | None,
    version: str | None,
    wait: bool,
) -> None:
    wanted = NodeUpdate(
        labels=labels_of(labels) if labels or no_labels else msgspec.UNSET,
        tags=tags if tags or no_tags else msgspec.UNSET,
        address=msgspec.UNSET if address is None else address,
    )
    if version is not None:
        if wanted != NodeUpdate():
            raise UsageError("A new version of the agent is a change of its own.", "Say --version alone.")
        order = fleet.node_agent_update(node_id(run, node), NodeAgentUpdate(version=version))
        _say_rolled_back(node_tasks.ordered(run, order, wait=wait))
        return
    if wanted == NodeUpdate() or wait:
        raise UsageError("Nothing to change.", "Say --label, --tag, --no-labels, --no-tags, --address or --version.")
    _shown(run, fleet.node_update(node_id(run, node), wanted))


def _say_rolled_back(task: TaskDetail | None) -> None:
    """The task went well, and the version did not."""
    if task is not None and task.result and task.result.get("rolled_back"):
        raise Stop(f"The agent is {task.result.get('version')} again: {task.result.get('reason')}.")


def labels_of(words: list[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    wrong = next((word for word, (name, equals, _) in zip(words, pairs, strict=True) if not (name and equals)), None)
    if wrong is not None:
        raise UsageError(f"{wrong!r} is no label.", "Write NAME=VALUE.")
    return {name: value for name, _, value in pairs}


# ── out of sale and back ─────────────────────────────────────────────────────────────────────────


@GROUP.command("cordon", _NODE, REASON, summary="Place nothing new on a node. What is on it stays.")
def node_cordon(run: Run, *, node: str, reason: str) -> None:
    _shown(run, fleet.node_cordon(node_id(run, node), NodeReason(reason=reason)))


@GROUP.command("uncordon", _NODE, summary="Place things on a node again.")
def node_uncordon(run: Run, *, node: str) -> None:
    _shown(run, fleet.node_uncordon(node_id(run, node)))


@GROUP.command("drain", _NODE, REASON, summary="Let nobody new onto a node; its host refuses new logins, too.")
def node_drain(run: Run, *, node: str, reason: str) -> None:
    _shown(run, fleet.node_drain(node_id(run, node), NodeReason(reason=reason)))


@GROUP.command("undrain", _NODE, summary="Let people onto a node again.")
def node_undrain(run: Run, *, node: str) -> None:
    _shown(run, fleet.node_undrain(node_id(run, node)))


@GROUP.command("disable", _NODE, REASON, YES, summary="Take a node out of service. Refused while somebody is on it.")
def node_disable(run: Run, *, node: str, reason: str, yes: bool) -> None:
    found = node_id(run, node)
    run.confirm(f"Disable {node}? Its agent is not listened to any more.", yes=yes)
    _shown(run, fleet.node_disable(found, NodeReason(reason=reason)))


@GROUP.command("enable", _NODE, summary="Take a node into service again; it is inspected and checked first.")
def node_enable(run: Run, *, node: str) -> None:
    _shown(run, fleet.node_enable(node_id(run, node)))


@GROUP.command("remove", _NODE, YES, summary="Remove a node for good. Refused while somebody is on it.")
def node_remove(run: Run, *, node: str, yes: bool) -> None:
    found = node_of(run, node)
    run.confirm(f"Remove {found.name}? Its certificates end; to come back it has to be enrolled anew.", yes=yes)
    run.done(fleet.node_remove(found.id), f"Node {found.name} is removed.")


# ── having it looked at ──────────────────────────────────────────────────────────────────────────


@GROUP.command("inspect", _NODE, WAIT, summary="Have a node's hardware looked at.")
def node_inspect(run: Run, *, node: str, wait: bool) -> None:
    node_tasks.ordered(run, fleet.node_inspect(node_id(run, node)), wait=wait)


@GROUP.command(
    "check",
    _NODE,
    Argument("--load", flag=True, help="Under load, too: nobody may be on the node."),
    WAIT,
    summary="Have a node's health checked.",
)
def node_check(run: Run, *, node: str, load: bool, wait: bool) -> None:
    node_tasks.ordered(run, fleet.node_check(node_id(run, node), NodeCheck(load=load)), wait=wait)


@GROUP.command(
    "probe",
    _NODE,
    Argument("--port", kind=number, default=22, help="The port to try. Default: 22, SSH."),
    summary="Try whether a node's address can be reached from the control plane. Ends with 1 if not.",
    about="A connection is opened and closed, nothing is sent. Only networks the installation allows are tried.",
)
def node_probe(run: Run, *, node: str, port: int) -> None:
    if port > _HIGHEST_PORT:
        raise UsageError(f"{port} is not a port.", f"Give a number up to {_HIGHEST_PORT}.")
    found = run.show(
        fleet.node_probe(node_id(run, node), NodeProbe(port=port)),
        [
            ("reached", lambda probe: probe.reached),
            ("address", lambda probe: probe.address),
            ("port", lambda probe: probe.port),
            ("took", lambda probe: "" if probe.milliseconds is None else f"{probe.milliseconds} ms"),
            ("detail", lambda probe: probe.detail),
        ],
    )
    if not found.reached:
        raise Stop(f"{node} was not reached at port {port}.", found.detail)


GROUP.children |= node_tasks.GROUP.children | node_artifacts.PARENT.children
