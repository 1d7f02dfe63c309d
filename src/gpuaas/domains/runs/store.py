"""SQL of runs.

Always holds: what a worker writes of a run names the fence it was given with its lease; once another has taken the run,
nothing it writes counts."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.flows import FlowKind, FlowState
from gpuaas.domains.runs.models import Attempt, Progress, Run
from gpuaas.domains.runs.states import LIFE, OPEN, S
from gpuaas.infra.postgres.tx import Row, Tx, conflicts, decode, decode_all
from gpuaas.kit.errors import Conflict, Missing
from gpuaas.kit.ids import RunId

# ruff: noqa: S608 - statements are made of the constants above them; every value is a parameter
_OPEN = "state IN ('forward', 'undoing')"
_ROW = "*, due_at <= now() AS late"
# Steps that count for themselves what they tried, count anew.
_RETRIED = "memo || jsonb_build_object('retried', coalesce((memo ->> 'retried')::int, 0) + 1)"
INSERT = f"""
INSERT INTO flow_runs (id, kind, version, subject_id, org_id, state, step, memo, due_at, correlation_id, traceparent,
                       created_by)
VALUES ($1, $2, $3, $4, $5, 'forward', '', $6::jsonb, now() + interval '1 minute', $7, $8, $9)
ON CONFLICT (subject_id, kind) WHERE state IN ('forward', 'undoing') DO NOTHING
RETURNING {_ROW}
"""
OPEN_OF = f"SELECT {_ROW} FROM flow_runs WHERE subject_id = $1 AND kind = $2 AND {_OPEN}"
GET = f"SELECT {_ROW} FROM flow_runs WHERE id = $1"
LIST = f"""
SELECT {_ROW} FROM flow_runs
WHERE id < $1 AND ($2::text IS NULL OR state = $2) AND ($3::text IS NULL OR kind = $3)
  AND ($4::uuid IS NULL OR subject_id = $4)
ORDER BY id DESC LIMIT $5
"""
ATTEMPTS = """
SELECT direction, step, outcome, detail, worker, at FROM (
    SELECT direction, step, outcome, detail, worker, at, fence, number FROM flow_attempts
    WHERE run_id = $1 ORDER BY fence DESC, number DESC LIMIT $2) AS last
ORDER BY fence, number
"""
TAKE = f"""
UPDATE flow_runs r SET lease_owner = $1, lease_until = now() + make_interval(secs => $2), fence = fence + 1
FROM (SELECT id FROM flow_runs
      WHERE {_OPEN} AND kind = ANY($4) AND next_at <= now() AND (lease_until IS NULL OR lease_until < now())
      ORDER BY next_at LIMIT $3 FOR UPDATE SKIP LOCKED) AS due
WHERE r.id = due.id
RETURNING r.*, r.due_at <= now() AS late
"""
# One statement: where the run stands, and what this attempt came to. Nobody else's fence, no run that has ended, and no
# step forward once it was to be cancelled.
PROGRESS = f"""
WITH moved AS (
    UPDATE flow_runs SET state = $3, step = $4, passed = $5, attempt = $6, memo = $7::jsonb, version = $8,
        next_at = CASE WHEN wakes <> $9 THEN now()
                       WHEN $10::float8 IS NOT NULL THEN now() + make_interval(secs => $10)
                       WHEN $11::float8 IS NOT NULL THEN now() + make_interval(secs => $11) ELSE due_at END,
        due_at = CASE WHEN $11::float8 IS NULL THEN due_at ELSE now() + make_interval(secs => $11) END,
        error_code = $12, error = $13,
        state_since = CASE WHEN state = $3 THEN state_since ELSE now() END,
        ended_at = CASE WHEN $3 = ANY($14) THEN NULL ELSE now() END,
        lease_until = CASE WHEN $15 THEN now() + make_interval(secs => $16) ELSE NULL END
    WHERE id = $1 AND fence = $2 AND {_OPEN} AND (state = $3 OR state = ANY($17))
      AND (cancel_requested_at IS NULL OR state = 'undoing' OR $3 = 'undoing')
    RETURNING *
), noted AS (
    INSERT INTO flow_attempts (run_id, fence, number, direction, step, outcome, detail, worker)
    SELECT m.id, m.fence, $18 * 100 + t.nth, $19, t.step, CASE WHEN t.nth = cardinality($20) THEN $21 ELSE 'passed' END,
        CASE WHEN t.nth = cardinality($20) THEN $22 ELSE '' END, m.lease_owner
    FROM moved m, unnest($20::text[]) WITH ORDINALITY AS t (step, nth)
)
SELECT {_ROW} FROM moved
"""
LET_GO = f"""
UPDATE flow_runs SET lease_until = least(lease_until, now() + make_interval(secs => $3))
WHERE id = $1 AND fence = $2 AND {_OPEN}
"""
# Nobody could end it, though its step's deadline is long over: whoever still acts on it writes nothing more.
GIVE_UP = f"""
WITH stuck AS (
    SELECT id, state FROM flow_runs
    WHERE id = $1 AND {_OPEN} AND state = ANY($3) AND due_at < now() - make_interval(secs => $4) FOR UPDATE
), given_up AS (
    UPDATE flow_runs r SET state = $2, state_since = now(), ended_at = now(), fence = fence + 1, lease_until = NULL
    FROM stuck WHERE r.id = stuck.id RETURNING r.*
), noted AS (
    INSERT INTO flow_attempts (run_id, fence, number, direction, step, outcome, detail, worker)
    SELECT g.id, g.fence, 0, stuck.state, g.step, 'failed', $5, $6 FROM given_up g JOIN stuck ON stuck.id = g.id
)
SELECT {_ROW} FROM given_up
"""
WAKE = f"""
UPDATE flow_runs SET next_at = now(), wakes = wakes + 1 WHERE subject_id = $1 AND {_OPEN}
"""
CANCEL = f"""
UPDATE flow_runs SET cancel_requested_at = now(), cancel_reason = $2, next_at = now(), wakes = wakes + 1
WHERE id = $1 AND state = 'forward' AND {_OPEN} AND cancel_requested_at IS NULL
RETURNING {_ROW}
"""
RETRY = f"""
UPDATE flow_runs SET next_at = now(), wakes = wakes + 1, attempt = 0, lease_until = NULL, fence = fence + 1,
    memo = {_RETRIED},
    due_at = greatest(due_at, now() + interval '10 minutes')
WHERE id = $1 AND {_OPEN}
RETURNING {_ROW}
"""
REOPEN = f"""
UPDATE flow_runs SET state = $2, state_since = now(), ended_at = NULL, next_at = now(), wakes = wakes + 1, attempt = 0,
    due_at = now() + interval '10 minutes', fence = fence + 1, lease_until = NULL, memo = {_RETRIED}
WHERE id = $1 AND state = ANY($3)
RETURNING {_ROW}
"""
# With their attempts. A run is no older than its id says.
PRUNE = f"""
DELETE FROM flow_runs WHERE id IN (
    SELECT id FROM flow_runs WHERE id < $1 AND NOT {_OPEN} ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)
"""


async def insert(
    tx: Tx, run_id: RunId, kind: FlowKind, subject_id: UUID, org_id: UUID | None, memo: object, trail: tuple[str, str]
) -> Run | None:
    """None when one of this kind is under way for the subject."""
    row = await tx.row(INSERT, run_id, kind, 1, subject_id, org_id, _json(memo), *trail, tx.actor_name)
    return None if row is None else decode(Run, row)


async def open_of(tx: Tx, subject_id: UUID, kind: FlowKind) -> Run | None:
    row = await tx.row(OPEN_OF, subject_id, kind)
    return None if row is None else decode(Run, row)


async def get(tx: Tx, run_id: RunId) -> Run:
    return _found(await tx.row(GET, run_id))


async def list_all(
    tx: Tx, *, before: UUID, state: FlowState | None, kind: FlowKind | None, subject_id: UUID | None, limit: int
) -> list[Run]:
    return decode_all(Run, await tx.rows(LIST, before, state, kind, subject_id, limit))


async def attempts(tx: Tx, run_id: RunId, *, limit: int) -> list[Attempt]:
    return decode_all(Attempt, await tx.rows(ATTEMPTS, run_id, limit))


async def take(tx: Tx, worker: str, kinds: Sequence[FlowKind], *, lease_seconds: float, limit: int) -> list[Run]:
    """Those that are due and nobody's: they are this worker's until the lease is over."""
    return decode_all(Run, await tx.rows(TAKE, worker, lease_seconds, limit, list(kinds)))


async def progress(tx: Tx, run: Run, at: Progress, *, number: int, keep: bool, lease_seconds: float) -> Run | None:
    """None when the run is not this worker's any more, or not to go forward."""
    sources = [state for state in LIFE.sources(at.to) if state in OPEN]
    row = await tx.row(
        PROGRESS,
        run.id,
        run.fence,
        at.to,
        at.step,
        at.passed,
        at.attempt,
        _json(at.memo),
        at.version,
        run.wakes,
        at.wait_seconds,
        at.step_seconds,
        at.error_code,
        at.error,
        sorted(OPEN),
        keep,
        lease_seconds,
        sources,
        number,
        run.state,
        at.attempted,
        at.outcome,
        at.detail,
    )
    return None if row is None else decode(Run, row)


async def let_go(tx: Tx, run: Run, *, seconds: float) -> None:
    """Another may take it after so long, unless it is another's already."""
    await tx.run(LET_GO, run.id, run.fence, seconds)


async def give_up(tx: Tx, run_id: RunId, reason: str, *, overdue_seconds: float) -> Run | None:
    """None: it has ended, or it is not overdue by so much."""
    sources = [state for state in LIFE.sources(S.SURRENDERED) if state in OPEN]
    row = await tx.row(GIVE_UP, run_id, S.SURRENDERED, sources, overdue_seconds, reason, tx.actor_name)
    return None if row is None else decode(Run, row)


async def wake(tx: Tx, subject_id: UUID) -> bool:
    return await tx.run(WAKE, subject_id) > 0


async def cancel(tx: Tx, run_id: RunId, reason: str) -> Run | None:
    row = await tx.row(CANCEL, run_id, reason)
    return None if row is None else decode(Run, row)


async def retry(tx: Tx, run_id: RunId) -> Run | None:
    row = await tx.row(RETRY, run_id)
    return None if row is None else decode(Run, row)


async def reopen(tx: Tx, run_id: RunId) -> Run:
    with conflicts({"flow_runs_one_open": Code.FLOW_ENDED}):  # a later one of its kind is under way
        row = await tx.row(REOPEN, run_id, S.UNDOING, [s for s in LIFE.sources(S.UNDOING) if s not in OPEN])
    if row is None:
        raise Conflict(Code.FLOW_ENDED, "The flow has ended, and nothing of it is left to be tried again.")
    return decode(Run, row)


async def prune(tx: Tx, *, before: UUID, limit: int) -> int:
    return await tx.run(PRUNE, before, limit)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _found(row: Row | None) -> Run:
    if row is None:
        raise Missing(Code.FLOW_MISSING, "There is no such flow.")
    return decode(Run, row)
