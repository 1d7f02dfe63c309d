"""The verbs of runs: start, wake, cancel, retry, abort.

Always holds: a subject has at most one open run of a kind; a run begins in the transaction that wants it; to cancel is
to leave a message, which the run follows at its next step."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec
from prometheus_client import Counter

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.events.provisioning import FlowEnded
from gpuaas.contracts.http.flows import FlowKind, FlowState
from gpuaas.domains.runs import store
from gpuaas.domains.runs.models import CANCELLABLE, HINT, Progress, Run
from gpuaas.domains.runs.states import OPEN
from gpuaas.infra.postgres.tx import Tx
from gpuaas.kit import log, trace
from gpuaas.kit.errors import Conflict
from gpuaas.kit.ids import RunId, new_id

OVERDUE_SECONDS = 60.0
"""Beyond its deadline, in which a worker would have turned it round."""

MAX_ERROR = 500
ENDED = Counter("gpuaas_flows_ended", "Flows that ended, by how.", ["kind", "state"])
ATTEMPTS = Counter("gpuaas_flow_attempts", "Attempts at steps of flows, by what they came to.", ["kind", "outcome"])

run_get = store.get
run_list = store.list_all
run_attempts = store.attempts
open_of = store.open_of
take = store.take
let_go = store.let_go
run_prune = store.prune


async def run_start(
    tx: Tx, kind: FlowKind, subject_id: UUID, *, org_id: UUID | None, memo: Mapping[str, Any] | None = None
) -> Run:
    """Begin a flow for a subject, in this commit; the one that is under way, if there is one."""
    trail = (log.correlation_id.get(), trace.traceparent())
    run = await store.insert(tx, RunId(new_id()), kind, subject_id, org_id, dict(memo or {}), trail)
    if run is None:
        run = await store.open_of(tx, subject_id, kind)
    if run is None:
        raise Conflict(Code.STATE_MOVE_REFUSED, "Another flow of this kind has just ended for it. Try again.")
    tx.hint(HINT)
    return run


async def progress(tx: Tx, run: Run, at: Progress, *, number: int, keep: bool, lease_seconds: float) -> Run | None:
    """Where a run stands now. None when it is not this worker's any more, or not to go forward."""
    at = msgspec.structs.replace(at, error_code=_kept(at.error_code), error=_kept(at.error), detail=_kept(at.detail))
    after = await store.progress(tx, run, at, number=number, keep=keep, lease_seconds=lease_seconds)
    if after is None:
        return None
    ATTEMPTS.labels(run.kind, at.outcome).inc()
    if after.state not in OPEN:
        ended = FlowEnded(
            run_id=run.id, kind=run.kind, subject_id=run.subject_id, state=after.state, error_code=after.error_code
        )
        tx.emit(ended, subject_id=run.id)
        tx.after_commit(lambda: ENDED.labels(run.kind, after.state).inc())
    return after


def _kept(text: str) -> str:
    """As far as a database can keep it: what a step stumbled over may be no text at all."""
    return log.scrub_text(text.encode(errors="backslashreplace").decode())[:MAX_ERROR]


async def wake(tx: Tx, subject_id: UUID) -> None:
    """Something happened that a flow of this subject may wait for."""
    if await store.wake(tx, subject_id):
        tx.hint(HINT)


async def run_cancel(tx: Tx, run_id: RunId, reason: str) -> Run:
    """Ask it to stop and take back what it did. Asking again changes nothing; once it undoes or has ended, refused."""
    run = await store.get(tx, run_id)
    if run.kind not in CANCELLABLE:
        raise Conflict(Code.FLOW_NOT_CANCELLABLE, f"{run.kind} cannot be stopped half-way: it makes things safe.")
    cancelled = await store.cancel(tx, run_id, reason)
    if cancelled is None:
        run = await store.get(tx, run_id)
        if run.state is not FlowState.FORWARD:
            raise Conflict(Code.FLOW_ENDED, f"The flow is {run.state}: it cannot be stopped any more.")
        return run
    tx.hint(HINT)
    return cancelled


async def run_give_up(tx: Tx, run_id: RunId, reason: str) -> bool:
    """The wall behind every deadline: a run that no worker could end in time, not even by surrendering, is over.
    Whoever calls this leaves its subject where it can do no harm, in the same commit. False: it is not overdue."""
    run = await store.give_up(tx, run_id, reason, overdue_seconds=OVERDUE_SECONDS)
    if run is None:
        return False
    tx.emit(
        FlowEnded(run_id=run.id, kind=run.kind, subject_id=run.subject_id, state=run.state, error_code=run.error_code),
        subject_id=run.id,
    )
    return True


async def run_retry(tx: Tx, run_id: RunId) -> Run:
    """Try the step it stands at now, with a fresh budget; of one that surrendered, the undoing."""
    run = await store.retry(tx, run_id)
    if run is None:
        await store.get(tx, run_id)
        run = await store.reopen(tx, run_id)
    tx.hint(HINT)
    return run
