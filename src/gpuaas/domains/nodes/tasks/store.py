"""SQL of tasks. A task changes its state in one statement that names where it may come from; numbers are given out
under a lock on the node's own row, so that they have no gap however many sign at once."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.nodes import TaskState
from gpuaas.contracts.tasks.base import Phase, Report
from gpuaas.domains.nodes.tasks.models import (
    Delivered,
    NewTask,
    Peek,
    PhaseRow,
    Place,
    Signed,
    TaskKey,
    TaskRow,
    TaskStory,
)
from gpuaas.domains.nodes.tasks.states import AT_NODE, GRACE_SECONDS, LIFE, OPEN, TO_CLAIM, S
from gpuaas.infra.postgres.tx import Tx, decode, decode_all
from gpuaas.kit.errors import Conflict, Missing
from gpuaas.kit.ids import TaskId

MAX_OPEN = 1000
MAX_PHASES = 200
TELL_AGAIN = timedelta(seconds=10)

_COLUMNS = """id, node_id, type, version, subject_id, arguments, deadline_seconds, state, state_since, due_at, sequence,
    issued_at, expires_at, delivered_at, started_at, ended_at, reported_at, cancel_requested_at, reason, code,
    correlation_id, traceparent, created_by, created_at"""


def _sql(text: str) -> str:
    return text.replace("COLUMNS", _COLUMNS)


INSERT = _sql("""
INSERT INTO tasks (id, node_id, type, version, subject_id, arguments, deadline_seconds, state, due_at, correlation_id,
                   traceparent, created_by)
SELECT $1, $2, $3, $4, $5, $6::jsonb, $7, 'queued', now() + $8::interval, $9, $10, $11
WHERE (SELECT count(*) FROM tasks WHERE node_id = $2 AND state = ANY($12)) < $13
RETURNING COLUMNS
""")
GET = _sql("SELECT COLUMNS FROM tasks WHERE id = $1")
OF_NODE = _sql("SELECT COLUMNS FROM tasks WHERE id = $1 AND node_id = $2")
STORY = "SELECT result, log, report_hash, reported_outcome FROM tasks WHERE id = $1"
HOLD = "SELECT FROM tasks WHERE id = ANY($1) ORDER BY id FOR UPDATE"
LIST = _sql("""
SELECT COLUMNS FROM tasks
WHERE id < $1 AND ($2::uuid IS NULL OR node_id = $2) AND ($3::text IS NULL OR state = $3)
  AND ($4::text IS NULL OR type = $4) AND ($5::uuid IS NULL OR subject_id = $5)
ORDER BY id DESC LIMIT $6
""")
PHASES = "SELECT name, at, detail, told_at FROM task_phases WHERE task_id = $1 ORDER BY at, told_at LIMIT $2"

# Signing: whoever holds a node's row gives out its next numbers; the others take other nodes. A key whose time is over
# finds nothing to sign, whatever its worker remembers.
NODES_TO_SIGN = """
SELECT node_id, last_issued FROM task_sequences
WHERE node_id IN (SELECT DISTINCT node_id FROM tasks WHERE state = 'queued')
  AND EXISTS (SELECT FROM task_keys WHERE key_id = $2 AND (valid_until IS NULL OR valid_until > now()))
LIMIT $1 FOR UPDATE SKIP LOCKED
"""
ANYTHING_TO_SIGN = "SELECT EXISTS (SELECT FROM tasks WHERE state = 'queued')"
TO_SIGN = _sql("""
SELECT COLUMNS FROM tasks WHERE node_id = ANY($1) AND state = 'queued' ORDER BY node_id, born LIMIT $2 FOR UPDATE
""")
SIGNED = """
WITH issued AS (
    UPDATE task_sequences q SET last_issued = n.last_issued
    FROM unnest($8::uuid[], $9::bigint[]) AS n (node_id, last_issued) WHERE q.node_id = n.node_id
)
UPDATE tasks t SET state = 'ready', state_since = now(), sequence = s.sequence, envelope = s.envelope, key_id = $6,
    issued_at = s.issued_at, expires_at = s.expires_at, due_at = s.expires_at
FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::timestamptz[], $5::timestamptz[])
    AS s (id, sequence, envelope, issued_at, expires_at)
WHERE t.id = s.id AND t.state = ANY($7)
"""

# Claiming, for many nodes at once: a look that costs one index probe each, a delivery only where there is something.
PEEK = """
SELECT c.node_id, c.next_sequence, q.accepted, q.last_issued,
       EXISTS (SELECT FROM tasks t WHERE t.node_id = c.node_id AND t.sequence >= c.next_sequence
                 AND t.expires_at > now() AND t.state IN ('ready', 'delivered', 'running')) AS waiting,
       EXISTS (SELECT FROM tasks t WHERE t.node_id = c.node_id AND t.state IN ('delivered', 'running')
                 AND t.cancel_requested_at IS NOT NULL
                 AND (t.cancel_told_at IS NULL OR t.cancel_told_at < now() - $3::interval)) AS cancels
FROM unnest($1::uuid[], $2::bigint[]) AS c (node_id, next_sequence)
JOIN task_sequences q ON q.node_id = c.node_id JOIN nodes n ON n.id = q.node_id AND n.state = 'active'
"""
NODES_WITH_WORK = """
SELECT DISTINCT node_id FROM tasks
WHERE node_id = ANY($1) AND state IN ('ready', 'delivered', 'running')
  AND (state = 'ready' OR (cancel_requested_at IS NOT NULL AND cancel_told_at IS NULL))
"""
# Rows are held in the order of their ids, so that two replicas never wait for each other in a circle.
DELIVER = """
WITH held AS MATERIALIZED (
    SELECT id FROM tasks WHERE id IN (
        SELECT t.id FROM unnest($1::uuid[], $2::bigint[]) AS c (node_id, next_sequence)
        JOIN nodes n ON n.id = c.node_id AND n.state = 'active'
        CROSS JOIN LATERAL (
            SELECT id FROM tasks WHERE node_id = c.node_id AND sequence >= c.next_sequence AND expires_at > now()
              AND state = ANY($6) ORDER BY sequence LIMIT $3) t)
    ORDER BY id FOR UPDATE
), given AS (
    UPDATE tasks SET state = CASE WHEN state = ANY($4) THEN 'delivered' ELSE state END,
        state_since = CASE WHEN state = ANY($4) THEN now() ELSE state_since END,
        delivered_at = coalesce(delivered_at, now()),
        due_at = CASE WHEN state = ANY($4) THEN expires_at + make_interval(secs => deadline_seconds + $5)
                      ELSE due_at END
    WHERE id IN (SELECT id FROM held) AND state = ANY($6)
    RETURNING node_id, sequence, envelope
)
SELECT node_id, sequence, envelope FROM given ORDER BY node_id, sequence
"""
CANCELS = """
UPDATE tasks SET cancel_told_at = now() WHERE id IN (
    SELECT id FROM tasks WHERE node_id = ANY($1) AND state = ANY($2) AND cancel_requested_at IS NOT NULL
    ORDER BY id FOR UPDATE)
RETURNING node_id, id
"""
# What only an agent that has taken a task over can know of: from here on it may not claim from before it.
KNOWN = "UPDATE task_sequences SET accepted = greatest(accepted, $2) WHERE node_id = $1"

RUNNING = """
UPDATE tasks SET state = 'running', state_since = now(), started_at = now(),
    due_at = now() + make_interval(secs => deadline_seconds + $4)
WHERE id = $1 AND node_id = $2 AND state = ANY($3)
"""
ADD_PHASES = """
INSERT INTO task_phases (task_id, at, name, detail)
SELECT $1, p.at, p.name, p.detail FROM unnest($2::timestamptz[], $3::text[], $4::text[]) AS p (at, name, detail)
LIMIT greatest(0, $5 - (SELECT count(*) FROM task_phases WHERE task_id = $1))
ON CONFLICT DO NOTHING
"""
ACCEPT = _sql("""
UPDATE tasks SET state = $4, state_since = now(), ended_at = now(), reported_at = now(), reported_by = $2,
    reported_outcome = $5, report_hash = $6, reason = $7, code = $8, result = $9::jsonb, log = $10,
    started_at = coalesce(started_at, delivered_at)
WHERE id = $1 AND node_id = $2 AND state = ANY($3) AND report_hash IS NULL RETURNING COLUMNS
""")
# Given up before it was told of: what is told is kept, what was decided stays.
ACCEPT_LATE = _sql("""
UPDATE tasks SET reported_at = now(), reported_by = $2, reported_outcome = $4, report_hash = $5, result = $6::jsonb,
    log = $7
WHERE id = $1 AND node_id = $2 AND state = ANY($3) AND delivered_at IS NOT NULL AND report_hash IS NULL
RETURNING COLUMNS
""")
MOVE = _sql("""
UPDATE tasks SET state = $2, state_since = now(), ended_at = now(), reason = $4, code = $5
WHERE id = $1 AND state = ANY($3) RETURNING COLUMNS
""")
ASK_CANCEL = _sql("""
UPDATE tasks SET cancel_requested_at = coalesce(cancel_requested_at, now()), cancel_told_at = NULL
WHERE id = $1 AND state = ANY($2) RETURNING COLUMNS
""")
OVERDUE = _sql("""
UPDATE tasks SET state = $2, state_since = now(), ended_at = now(), reason = $3, code = 'deadline'
WHERE id IN (SELECT id FROM tasks WHERE state = $1 AND due_at < now() ORDER BY due_at LIMIT $4 FOR UPDATE SKIP LOCKED)
  AND state = $1
RETURNING COLUMNS
""")
ABANDON = _sql("""
UPDATE tasks SET state = 'timed_out', state_since = now(), ended_at = now(), reason = $3, code = 'enrolled_again'
WHERE node_id = $1 AND state = ANY($2) RETURNING COLUMNS
""")
RECENT_OF_TYPES = """
SELECT state, id, reason FROM tasks WHERE node_id = $1 AND type = ANY($2) AND ended_at > $3
ORDER BY ended_at DESC LIMIT $4
"""
OPEN_OF_PREFIX = """
SELECT count(*) FROM tasks WHERE node_id = $1 AND state = ANY($2) AND starts_with(type, $3)
"""
OPEN_COUNT = "SELECT count(*) FROM tasks WHERE state = ANY($1)"
PRUNE = """
DELETE FROM tasks WHERE id IN (
    SELECT id FROM tasks WHERE id < $1 AND state <> ALL($2) ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED)
"""

START_SEQUENCE = "INSERT INTO task_sequences (node_id) VALUES ($1)"
RESTART_SEQUENCE = "UPDATE task_sequences SET accepted = 0 WHERE node_id = $1"

KEYS = "SELECT * FROM task_keys WHERE valid_until IS NULL OR valid_until > now() ORDER BY valid_from, key_id"
KEY_NAMES = "SELECT key_id FROM task_keys WHERE valid_until IS NULL OR valid_until > now() ORDER BY key_id"
STATEMENTS = "SELECT statement FROM task_keys WHERE statement IS NOT NULL ORDER BY valid_from, key_id"
KEY = "SELECT * FROM task_keys WHERE key_id = $1"
ADD_KEY = """
INSERT INTO task_keys (key_id, public_key, statement) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING key_id
"""
RETIRE_KEYS = """
UPDATE task_keys SET valid_until = now() + $2::interval WHERE key_id <> $1 AND valid_until IS NULL
"""


# making and looking --------------------------------------------------------------------------------------------------
async def insert(tx: Tx, task_id: TaskId, wanted: NewTask) -> TaskRow:
    row = await tx.row(
        INSERT,
        task_id,
        wanted.node_id,
        wanted.type,
        wanted.version,
        wanted.subject_id,
        wanted.arguments,
        wanted.deadline_seconds,
        LIFE.table[S.QUEUED].deadline,
        wanted.correlation_id,
        wanted.traceparent,
        tx.actor_name,
        sorted(OPEN),
        MAX_OPEN,
    )
    if row is None:
        raise Conflict(Code.TASK_QUEUE_FULL, f"The node has {MAX_OPEN} unfinished tasks. Wait or cancel some.")
    return decode(TaskRow, row)


async def get(tx: Tx, task_id: TaskId) -> TaskRow:
    row = await tx.row(GET, task_id)
    if row is None:
        raise Missing(Code.TASK_MISSING, "There is no such task.")
    return decode(TaskRow, row)


async def of_node(tx: Tx, task_id: TaskId, node_id: UUID) -> TaskRow | None:
    row = await tx.row(OF_NODE, task_id, node_id)
    return None if row is None else decode(TaskRow, row)


async def story(tx: Tx, task_id: TaskId) -> TaskStory:
    row = await tx.row(STORY, task_id)
    if row is None:
        raise Missing(Code.TASK_MISSING, "There is no such task.")
    return decode(TaskStory, row)


async def list_all(
    tx: Tx,
    *,
    node_id: UUID | None,
    state: TaskState | None,
    type: str | None,
    subject_id: UUID | None,
    before: UUID,
    limit: int,
) -> list[TaskRow]:
    return decode_all(TaskRow, await tx.rows(LIST, before, node_id, state, type, subject_id, limit))


async def hold(tx: Tx, ids: Sequence[TaskId]) -> None:
    """Until the transaction ends: for whoever changes several, before he changes what those who tell of them need."""
    await tx.run(HOLD, list(ids))


async def phases(tx: Tx, task_id: TaskId) -> list[PhaseRow]:
    return decode_all(PhaseRow, await tx.rows(PHASES, task_id, MAX_PHASES))


async def recent_of_types(
    tx: Tx, node_id: UUID, types: Sequence[str], *, after: datetime, limit: int
) -> list[tuple[TaskState, UUID, str]]:
    """How the last tasks of these types ended, the newest first."""
    rows = await tx.rows(RECENT_OF_TYPES, node_id, list(types), after, limit)
    return [(TaskState(row["state"]), row["id"], row["reason"]) for row in rows]


async def open_with_prefix(tx: Tx, node_id: UUID, prefix: str) -> int:
    return int(await tx.value(OPEN_OF_PREFIX, node_id, sorted(OPEN), prefix))


async def open_count(tx: Tx) -> int:
    return int(await tx.value(OPEN_COUNT, sorted(OPEN)))


# signing -------------------------------------------------------------------------------------------------------------
async def nodes_to_sign(tx: Tx, key_id: str, *, limit: int) -> dict[UUID, int]:
    """Nodes with tasks to sign, held until the transaction ends, and the last number each has given out."""
    return {row["node_id"]: row["last_issued"] for row in await tx.rows(NODES_TO_SIGN, limit, key_id)}


async def anything_to_sign(tx: Tx) -> bool:
    return bool(await tx.value(ANYTHING_TO_SIGN))


async def to_sign(tx: Tx, nodes: Sequence[UUID], *, limit: int) -> list[TaskRow]:
    return decode_all(TaskRow, await tx.rows(TO_SIGN, list(nodes), limit))


async def signed(tx: Tx, key_id: str, tasks: Sequence[Signed], last: Mapping[UUID, int]) -> int:
    """`last`: the last number each node has given out with them."""
    columns = (
        [t.id for t in tasks],
        [t.sequence for t in tasks],
        [t.envelope for t in tasks],
        [t.issued_at for t in tasks],
        [t.expires_at for t in tasks],
    )
    return await tx.run(SIGNED, *columns, key_id, LIFE.sources(S.READY), list(last), list(last.values()))


async def sequence_start(tx: Tx, node_id: UUID) -> None:
    await tx.run(START_SEQUENCE, node_id)


async def sequence_restart(tx: Tx, node_id: UUID) -> None:
    await tx.run(RESTART_SEQUENCE, node_id)


async def keys(tx: Tx) -> list[TaskKey]:
    return decode_all(TaskKey, await tx.rows(KEYS))


async def key_names(tx: Tx) -> list[str]:
    return [row["key_id"] for row in await tx.rows(KEY_NAMES)]


async def statements(tx: Tx) -> list[str]:
    return [row["statement"] for row in await tx.rows(STATEMENTS)]


async def key(tx: Tx, key_id: str) -> TaskKey | None:
    row = await tx.row(KEY, key_id)
    return None if row is None else decode(TaskKey, row)


async def key_add(tx: Tx, key_id: str, public_key: str, statement: str | None) -> bool:
    return await tx.value(ADD_KEY, key_id, public_key, statement) is not None


async def keys_retire(tx: Tx, *, but: str, overlap: timedelta) -> None:
    await tx.run(RETIRE_KEYS, but, overlap)


# at the node ---------------------------------------------------------------------------------------------------------
async def peek(tx: Tx, claims: Collection[Place]) -> dict[Place, Peek]:
    """What is there for each; a node that is not in service is left out."""
    nodes, sequences = [node_id for node_id, _ in claims], [sequence for _, sequence in claims]
    found = decode_all(Peek, await tx.rows(PEEK, nodes, sequences, TELL_AGAIN))
    return {(one.node_id, one.next_sequence): one for one in found}


async def nodes_with_work(tx: Tx, nodes: Sequence[UUID]) -> list[UUID]:
    return [row["node_id"] for row in await tx.rows(NODES_WITH_WORK, list(nodes))]


async def deliver(tx: Tx, claims: Mapping[UUID, int], *, limit: int) -> list[Delivered]:
    """From the given number on, for each node up to the limit, in order of node and number."""
    rows = await tx.rows(
        DELIVER,
        list(claims),
        list(claims.values()),
        limit,
        LIFE.sources(S.DELIVERED),
        GRACE_SECONDS,
        sorted(TO_CLAIM),
    )
    return decode_all(Delivered, rows)


async def cancels(tx: Tx, nodes: Collection[UUID]) -> list[tuple[UUID, UUID]]:
    """Nodes, and tasks they should stop."""
    return [(row["node_id"], row["id"]) for row in await tx.rows(CANCELS, list(nodes), sorted(AT_NODE))]


async def known(tx: Tx, node_id: UUID, sequence: int) -> None:
    await tx.run(KNOWN, node_id, sequence)


async def start(tx: Tx, task_id: TaskId, node_id: UUID) -> bool:
    return await tx.run(RUNNING, task_id, node_id, LIFE.sources(S.RUNNING), GRACE_SECONDS) > 0


async def phases_add(tx: Tx, task_id: TaskId, told: Sequence[Phase]) -> None:
    await tx.run(
        ADD_PHASES, task_id, [p.at for p in told], [p.name for p in told], [p.detail for p in told], MAX_PHASES
    )


async def accept(
    tx: Tx, task_id: TaskId, node_id: UUID, report: Report, *, to: TaskState, digest: bytes, result: str | None
) -> TaskRow | None:
    row = await tx.row(
        ACCEPT,
        task_id,
        node_id,
        LIFE.sources(to),
        to,
        report.outcome,
        digest,
        report.reason,
        report.code,
        result,
        report.log,
    )
    return None if row is None else decode(TaskRow, row)


async def accept_late(
    tx: Tx, task_id: TaskId, node_id: UUID, report: Report, *, digest: bytes, result: str | None
) -> TaskRow | None:
    given_up = [S.TIMED_OUT, S.CANCELLED, S.EXPIRED]
    row = await tx.row(ACCEPT_LATE, task_id, node_id, given_up, report.outcome, digest, result, report.log)
    return None if row is None else decode(TaskRow, row)


# ending without a word from the node ---------------------------------------------------------------------------------
async def move(tx: Tx, task_id: TaskId, *, to: TaskState, frm: Sequence[TaskState], reason: str, code: str) -> TaskRow:
    sources = [state for state in LIFE.sources(to) if state in frm]
    row = await tx.row(MOVE, task_id, to, sources, reason, code)
    if row is None:
        raise Conflict(Code.STATE_MOVE_REFUSED, f"The task cannot become {to} now.")
    return decode(TaskRow, row)


async def ask_cancel(tx: Tx, task_id: TaskId) -> TaskRow | None:
    row = await tx.row(ASK_CANCEL, task_id, sorted(AT_NODE))
    return None if row is None else decode(TaskRow, row)


async def move_overdue(tx: Tx, *, limit: int) -> list[TaskRow]:
    moved: list[TaskRow] = []
    for state, (_, to) in LIFE.deadlines().items():
        reason = f"it was {state} for too long"
        moved += decode_all(TaskRow, await tx.rows(OVERDUE, state, to, reason, limit))
    return moved


async def abandon(tx: Tx, node_id: UUID, reason: str) -> list[TaskRow]:
    return decode_all(TaskRow, await tx.rows(ABANDON, node_id, sorted(AT_NODE), reason))


async def prune(tx: Tx, *, before: UUID, limit: int) -> int:
    return await tx.run(PRUNE, before, sorted(OPEN), limit)
