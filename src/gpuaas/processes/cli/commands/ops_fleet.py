"""The fleet as a whole: what is the matter with it, what its hosts measure, and who vouches for its nodes."""

from collections.abc import Callable
from uuid import UUID

from gpuaas.client import authorities, fleet
from gpuaas.client.api import decode
from gpuaas.client.call import Call
from gpuaas.contracts.http.nodes import (
    FleetHealth,
    MetricsQuery,
    NodeListQuery,
    NodeMetrics,
    SampleView,
    SlotListQuery,
    Trouble,
)
from gpuaas.contracts.http.pki import (
    AuthorityView,
    CaRotate,
    CaView,
    CertificateListQuery,
    CertificateRecord,
    CertificateRevoke,
    RotatedKind,
)
from gpuaas.kit.paging import MAX_LIMIT
from gpuaas.processes.cli import names
from gpuaas.processes.cli.commands.node_tasks import node_id
from gpuaas.processes.cli.declare import ALL, LIMIT, REASON, YES, Argument, Group, number
from gpuaas.processes.cli.failures import Stop, UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.quantities import gib
from gpuaas.processes.cli.run import Run

GROUP = Group("ops", "The fleet; a part of the group of operators.")
CERTIFICATES = GROUP.group("certificates", "Certificates of nodes and of the agents' listener.")
CA = GROUP.group("ca", "The authority that signs nodes' certificates.")
_NODE = Argument("node", help="Its name or id.", completes="node")


# ── how it is ────────────────────────────────────────────────────────────────────────────────────


@GROUP.command("fleet-health", summary="Tell what of the fleet cannot be sold, and why. Ends with 1 if something is.")
def fleet_health(run: Run) -> None:
    call = fleet.fleet_health()
    body = run.api.send_raw(call)
    found = decode(call, body)
    if run.out.json:
        run.out.raw(body)
    else:
        _show_fleet(run, found)
    if not found.ok:
        raise Stop("Not all of the fleet can be sold.", "More of one: gpuaas nodes show | slots | health NODE")


def _show_fleet(run: Run, found: FleetHealth) -> None:
    run.out.fields(
        [
            ("nodes", _counted(found.nodes, found.by_state)),
            ("liveness", _counted(None, found.by_liveness)),
            ("GPUs", f"{found.slots}: {found.slots_sellable} sellable, {found.slots_quarantined} in quarantine"),
            ("open tasks", found.tasks_open),
        ]
    )
    if not found.nodes:
        run.out.note("There are no nodes. Make the first: gpuaas nodes create NAME --sku SKU")
    if found.troubles:
        columns: list[Column[Trouble]] = [
            ("node", lambda trouble: trouble.node_name),
            ("gpu", lambda trouble: trouble.serial or "all of it"),
            ("why not", lambda trouble: trouble.why_not),
        ]
        run.out.line("")
        run.out.table(columns, found.troubles, empty="")


def _counted(total: int | None, parts: dict[str, int]) -> str:
    said = ", ".join(f"{count} {name}" for name, count in sorted(parts.items()) if count)
    return said if total is None else f"{total}: {said}" if said else str(total)


# ── what is measured ─────────────────────────────────────────────────────────────────────────────


@GROUP.command(
    "node-metrics",
    _NODE,
    Argument("--minutes", kind=number, default=15, help="How far back, 10080 at most. Default: 15."),
    Argument("--metric", help="One metric over time, such as host.load1; without it, all as they were last."),
    Argument("--samples", kind=number, default=120, help="So many at most. Default: 120."),
    summary="Show what a node's host and GPUs measure.",
    examples=["gpuaas ops node-metrics gpu-17", "gpuaas ops node-metrics gpu-17 --metric host.load1 --minutes 60"],
)
def node_metrics(run: Run, *, node: str, minutes: int, metric: str | None, samples: int) -> None:
    found_id = node_id(run, node)
    call = fleet.node_metrics(found_id, MetricsQuery(minutes=minutes, limit=samples))
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    found: NodeMetrics = decode(call, body)
    if not found.samples:
        run.out.note(f"{node} has sent nothing in the last {minutes} minutes.")
    elif metric is None:
        _show_last(run, found_id, found.samples[0])
    else:
        _show_over_time(run, found.samples, metric)


def _show_over_time(run: Run, samples: list[SampleView], metric: str) -> None:
    rows = [sample for sample in samples if metric in sample.values]
    if not rows:
        known = ", ".join(sorted({name for sample in samples for name in sample.values})[:20])
        raise UsageError(f"There is no metric {metric!r} here.", f"There are: {known}")
    columns: list[Column[SampleView]] = [
        ("at", lambda sample: sample.at),
        (metric, lambda sample: _figure(metric, sample.values[metric])),
    ]
    run.out.table(columns, rows, empty="")


def _show_last(run: Run, node: UUID, sample: SampleView) -> None:
    gpus: dict[str, dict[str, float]] = {}
    host = [("at", str(sample.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")))]
    for name, value in sorted(sample.values.items()):
        kind, _, rest = name.partition(".")
        if kind == "gpu" and "." in rest:
            serial, _, metric = rest.rpartition(".")
            gpus.setdefault(serial, {})[metric] = value
        else:
            host.append((name, _figure(name, value)))
    run.out.fields(host)
    if not gpus:
        return
    numbers = {slot.serial: slot.index for slot in run.api.items(fleet.slot_list(_all_of(node)))}
    titles = sorted({metric for values in gpus.values() for metric in values})
    columns: list[Column[str]] = [
        ("gpu", numbers.get),
        ("serial", lambda serial: serial),
        *((title.removesuffix("_bytes").replace("_", " "), _cell(gpus, title)) for title in titles),
    ]
    run.out.line("")
    run.out.table(columns, sorted(gpus, key=lambda serial: (numbers.get(serial, len(gpus)), serial)), empty="")


def _cell(gpus: dict[str, dict[str, float]], metric: str) -> Callable[[str], str | None]:
    return lambda serial: _figure(metric, gpus[serial][metric]) if metric in gpus[serial] else None


def _figure(metric: str, value: float) -> str:
    return gib(int(value)) if metric.endswith("_bytes") else f"{value:.10g}"


def _all_of(node: UUID) -> SlotListQuery:
    return SlotListQuery(node_id=node, limit=MAX_LIMIT)


# ── certificates ─────────────────────────────────────────────────────────────────────────────────


def _certificate_columns(nodes: dict[UUID, str]) -> list[Column[CertificateRecord]]:
    return [
        ("node", lambda one: "the listener" if one.node_id is None else nodes.get(one.node_id, one.node_id)),
        ("state", lambda one: one.state),
        ("issued", lambda one: one.issued_at),
        ("until", lambda one: one.not_after),
        ("first used", lambda one: one.used_at or "never"),
        ("id", lambda one: one.id),
        ("serial", lambda one: one.serial),
        ("why revoked", lambda one: one.revoked_reason),
    ]


@CERTIFICATES.command(
    "list", Argument("--node", help="Only of this node, by name or id."), LIMIT, ALL, summary="List certificates."
)
def certificate_list(run: Run, *, node: str | None, limit: int, all: bool) -> None:
    query = CertificateListQuery(node_id=None if node is None else node_id(run, node))
    known: dict[UUID, str] = {}
    if not run.out.json:
        known = {one.id: one.name for one in run.api.items(fleet.node_list(NodeListQuery(limit=MAX_LIMIT)))}
    empty = "No certificate was given yet: nodes get theirs when they are enrolled."
    run.table(authorities.certificate_list(query), _certificate_columns(known), limit=limit, all=all, empty=empty)


@CERTIFICATES.command(
    "revoke",
    Argument("certificate", help="Its id."),
    REASON,
    YES,
    summary="Revoke a certificate: its node is without an identity until it is enrolled again.",
)
def certificate_revoke(run: Run, *, certificate: str, reason: str, yes: bool) -> None:
    found = names.as_id(certificate)
    if found is None:
        raise UsageError(f"{certificate!r} is not an id.", "See them with: gpuaas ops certificates list")
    run.confirm(f"Revoke the certificate {certificate}? Its node has to be enrolled again.", yes=yes)
    run.show(authorities.certificate_revoke(found, CertificateRevoke(reason=reason)), _certificate_columns({}))


_AUTHORITY_COLUMNS: list[Column[AuthorityView]] = [
    ("kind", lambda one: one.kind),
    ("state", lambda one: one.state),
    ("subject", lambda one: one.subject),
    ("from", lambda one: one.not_before),
    ("until", lambda one: one.not_after),
    ("live certificates", lambda one: one.live_certificates),
    ("fingerprint (SHA-256)", lambda one: one.fingerprint),
]


@CA.command("show", summary="Show the authorities that sign nodes' certificates, newest first.")
def ca_get(run: Run) -> None:
    _show_ca(run, authorities.ca_get())


@CA.command(
    "rotate",
    Argument(
        "--kind",
        choices=tuple(RotatedKind),
        default=RotatedKind.INTERMEDIATE.value,
        help="The intermediate, or the root and with it the intermediate. Default: intermediate.",
    ),
    Argument("--distrust-old", flag=True, help="Believe nothing the old ones signed: every node is enrolled again."),
    REASON,
    YES,
    summary="Make a new authority, which signs from now on. The old one stays trusted while what it signed lives.",
)
def ca_rotate(run: Run, *, kind: str, distrust_old: bool, reason: str, yes: bool) -> None:
    if distrust_old:
        run.confirm("Distrust the old authorities? Every node is shut out until it is enrolled again.", yes=yes)
    else:
        run.confirm(f"Make a new {kind}?", yes=yes)
    _show_ca(run, authorities.ca_rotate(CaRotate(reason=reason, kind=RotatedKind(kind), distrust_old=distrust_old)))


def _show_ca(run: Run, call: Call[CaView]) -> None:
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    found = decode(call, body)
    run.out.note(f"Trust domain: {found.trust_domain}")
    run.out.table(
        _AUTHORITY_COLUMNS, found.authorities, empty="There is no authority yet: the first enrolment makes it."
    )
