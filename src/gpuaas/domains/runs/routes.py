"""Operations on flows, for operators: look, try again, stop."""

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.base import Page
from gpuaas.contracts.http.flows import FlowAbort, FlowAttempt, FlowDetail, FlowQuery, FlowView
from gpuaas.contracts.permissions import P
from gpuaas.domains.runs import service
from gpuaas.domains.runs.models import Run
from gpuaas.domains.runs.states import OPEN
from gpuaas.infra.http.context import PlatformContext
from gpuaas.infra.http.listing import before, page
from gpuaas.infra.http.operation import Lane, operation
from gpuaas.kit.ids import RunId

_ONE = "/flows/{run_id}"
_KNOWN = (Code.FLOW_MISSING,)
MAX_ATTEMPTS_SHOWN = 200
_SHOWN = frozenset(FlowView.__struct_fields__) - {"worker"}


@operation("GET", "/flows", permission=P.PLATFORM_READ, lane=Lane.DEFAULT, tag="flows")
async def flow_list(cx: PlatformContext, query: FlowQuery) -> Page[FlowView]:
    """List flows, newest first."""
    rows = await service.run_list(
        cx.tx,
        before=before(cx, query),
        state=query.state,
        kind=query.kind,
        subject_id=query.subject_id,
        limit=query.limit + 1,
    )
    return page(cx, query, rows, _view)


@operation("GET", _ONE, permission=P.PLATFORM_READ, lane=Lane.DEFAULT, tag="flows", errors=_KNOWN)
async def flow_get(cx: PlatformContext, run_id: RunId) -> FlowDetail:
    """Show a flow: where it stands, and what each attempt at a step came to."""
    run = await service.run_get(cx.tx, run_id)
    attempts = await service.run_attempts(cx.tx, run_id, limit=MAX_ATTEMPTS_SHOWN)
    return FlowDetail(
        **msgspec.structs.asdict(_view(run)),
        attempts=[FlowAttempt(**msgspec.structs.asdict(attempt)) for attempt in attempts],
    )


@operation(
    "POST",
    _ONE + "/retry",
    permission=P.PLATFORM_MANAGE,
    lane=Lane.ADMIN,
    audit="flow.retry",
    tag="flows",
    errors=(*_KNOWN, Code.FLOW_ENDED),
)
async def flow_retry(cx: PlatformContext, run_id: RunId) -> FlowView:
    """Try the step a flow stands at now, with a fresh budget; of one that surrendered, what could not be taken back."""
    return _view(await service.run_retry(cx.tx, run_id))


@operation(
    "POST",
    _ONE + "/abort",
    permission=P.PLATFORM_MANAGE,
    lane=Lane.ADMIN,
    audit="flow.abort",
    tag="flows",
    status=202,
    errors=(*_KNOWN, Code.FLOW_ENDED, Code.FLOW_NOT_CANCELLABLE),
)
async def flow_abort(cx: PlatformContext, run_id: RunId, wanted: FlowAbort) -> FlowView:
    """Have a flow stop and take back what it did."""
    return _view(await service.run_cancel(cx.tx, run_id, wanted.reason))


def _view(run: Run) -> FlowView:
    known = {name: value for name, value in msgspec.structs.asdict(run).items() if name in _SHOWN}
    acting = run.state in OPEN and run.lease_until is not None
    return FlowView(**known, worker=run.lease_owner if acting else "")
