"""Flows, for operators: which stories are under way, where each stands, what every attempt came to."""

from uuid import UUID

from gpuaas.client import flows
from gpuaas.client.api import decode
from gpuaas.contracts.http.flows import FlowAbort, FlowAttempt, FlowKind, FlowQuery, FlowState, FlowView
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ALL, LIMIT, REASON, YES, Argument, Group
from gpuaas.processes.cli.failures import UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run
from gpuaas.processes.cli.spans import relative

GROUP = Group("flows", "Stories across the product, step by step: look at them, try again, stop.")
_FLOW = Argument("flow", help="Its id.")
_COLUMNS: list[Column[FlowView]] = [
    ("id", lambda flow: flow.id),
    ("flow", lambda flow: flow.kind),
    ("state", lambda flow: f"{flow.state.value}, to be stopped" if _stopping(flow) else flow.state.value),
    ("step", lambda flow: flow.step),
    ("attempt", lambda flow: flow.attempt),
    ("since", lambda flow: relative(flow.state_since)),
    ("due", lambda flow: relative(flow.due_at) if flow.ended_at is None else ""),
    ("error", lambda flow: flow.error),
    ("subject", lambda flow: flow.subject_id),
]
_DETAIL: list[Column[FlowView]] = [
    *_COLUMNS,
    ("error code", lambda flow: flow.error_code),
    ("passed", lambda flow: flow.passed),
    ("version", lambda flow: flow.version),
    ("next look", lambda flow: relative(flow.next_at) if flow.ended_at is None else ""),
    ("worker", lambda flow: flow.worker or "nobody now"),
    ("to be stopped", lambda flow: flow.cancel_reason),
    ("organisation", lambda flow: flow.org_id),
    ("began", lambda flow: flow.created_at),
    ("ended", lambda flow: flow.ended_at),
    ("correlation id", lambda flow: flow.correlation_id),
]
_ATTEMPTS: list[Column[FlowAttempt]] = [
    ("at", lambda attempt: attempt.at),
    ("direction", lambda attempt: attempt.direction),
    ("step", lambda attempt: attempt.step),
    ("outcome", lambda attempt: attempt.outcome),
    ("detail", lambda attempt: attempt.detail),
    ("worker", lambda attempt: attempt.worker),
]


def _stopping(flow: FlowView) -> bool:
    return bool(flow.cancel_reason) and flow.state is FlowState.FORWARD


@GROUP.command(
    "list",
    Argument("--state", choices=tuple(FlowState), help="Only those."),
    Argument("--kind", choices=tuple(FlowKind), help="Only those."),
    Argument("--subject", help="Only those of this subject, such as an allocation's id."),
    LIMIT,
    ALL,
    summary="List flows, the newest first.",
)
def flow_list(run: Run, *, state: str | None, kind: str | None, subject: str | None, limit: int, all: bool) -> None:
    query = FlowQuery(
        state=None if state is None else FlowState(state),
        kind=None if kind is None else FlowKind(kind),
        subject_id=None if subject is None else _id(subject, "gpuaas allocations list --everybody"),
    )
    run.table(flows.flow_list(query), _COLUMNS, limit=limit, all=all, empty="No flow is so.")


@GROUP.command("show", _FLOW, summary="Show a flow: where it stands, and what each attempt at a step came to.")
def flow_get(run: Run, *, flow: str) -> None:
    call = flows.flow_get(_id(flow))
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    found = decode(call, body)
    run.out.fields([(name, value(found)) for name, value in _DETAIL])
    run.out.line("")
    run.out.table(_ATTEMPTS, found.attempts, empty="No step was tried yet.")


@GROUP.command(
    "retry",
    _FLOW,
    summary="Try the step a flow stands at now, with a fresh budget.",
    about="Of one that surrendered, what could not be taken back is tried again.",
)
def flow_retry(run: Run, *, flow: str) -> None:
    run.show(flows.flow_retry(_id(flow)), _COLUMNS)


@GROUP.command("abort", _FLOW, REASON, YES, summary="Have a flow stop and take back what it did.")
def flow_abort(run: Run, *, flow: str, reason: str, yes: bool) -> None:
    run.confirm(f"Stop the flow {flow} and take back what it did?", yes=yes)
    run.show(flows.flow_abort(_id(flow), FlowAbort(reason=reason)), _COLUMNS)


def _id(word: str, where: str = "gpuaas ops flows list") -> UUID:
    found = names.as_id(word)
    if found is None:
        raise UsageError(f"{word!r} is not an id.", f"See them with: {where}")
    return found
