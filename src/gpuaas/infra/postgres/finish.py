"""The one statement that ends a change: its audit row, its events and its stored answer, in one round trip."""

from typing import Any
from uuid import UUID

import msgspec

from gpuaas.infra.postgres.tx import NIL, Tx, outbox_columns

FINISH = """
WITH audited AS (
    INSERT INTO audit_log (id, action, operation, actor_kind, actor_id, actor_name, org_id, project_id, subject_id,
                           correlation_id, client_ip, details)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::jsonb WHERE $1::uuid IS NOT NULL
), queued AS (
    INSERT INTO audit_unsealed (audit_id) SELECT $1 WHERE $1::uuid IS NOT NULL
), told AS (
    INSERT INTO outbox (id, stream, name, version, org_id, subject_id, actor, correlation_id, traceparent, payload)
    SELECT e.* FROM unnest($13::uuid[], $14::text[], $15::text[], $16::int[], $17::uuid[], $18::uuid[], $19::text[],
                           $20::text[], $21::text[], $22::jsonb[]) AS e
)
UPDATE idempotency_keys SET status = $25, body = $26 WHERE actor_id = $23 AND key = $24
"""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    action: str
    operation: str
    actor_kind: str
    actor_id: UUID | None
    actor_name: str
    org_id: UUID | None
    project_id: UUID | None
    subject_id: UUID | None
    correlation_id: str
    client_ip: str
    details: str


class StoredAnswer(msgspec.Struct, frozen=True):
    actor_id: UUID
    key: str
    status: int
    body: bytes


_NO_AUDIT: tuple[Any, ...] = (None,) * 12
_NO_ANSWER: tuple[Any, ...] = (NIL, "", 0, b"")
_NO_EVENTS: tuple[list[Any], ...] = tuple([] for _ in range(10))


async def finish(tx: Tx, audit: AuditEntry | None = None, answer: StoredAnswer | None = None) -> None:
    """Write what must commit with the change. Does nothing when there is nothing to write."""
    if audit is None and answer is None and not tx.events:
        return
    await tx.run(
        FINISH,
        *(msgspec.structs.astuple(audit) if audit else _NO_AUDIT),
        *outbox_columns(tx),
        *(msgspec.structs.astuple(answer) if answer else _NO_ANSWER),
    )


async def note(tx: Tx, audit: AuditEntry) -> None:
    """An audit row of what nobody asked for over HTTP, in the middle of its transaction."""
    await tx.run(FINISH, *msgspec.structs.astuple(audit), *_NO_EVENTS, *_NO_ANSWER)
