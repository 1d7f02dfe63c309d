"""Audit rows for tests: written the way every change writes its own."""

from uuid import UUID

from gpuaas.domains.audit.service import audit_seal
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.finish import AuditEntry, finish
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.infra.signing import SigningKeys
from gpuaas.kit.ids import new_id
from gpuaas.ports.policy import PolicyReader


def entry(org_id: UUID | None = None, **fields: object) -> AuditEntry:
    return AuditEntry(
        **{  # type: ignore[arg-type] # fields are what the test speaks of
            "id": new_id(),
            "action": "thing.create",
            "operation": "thing_create",
            "actor_kind": "user",
            "actor_id": new_id(),
            "actor_name": "ada@example.com",
            "org_id": org_id,
            "project_id": None,
            "subject_id": new_id(),
            "correlation_id": new_id().hex,
            "client_ip": "192.0.2.77",
            "details": '{"name": "x"}',
            **fields,
        }
    )


async def write(db: Database, count: int = 1, org_id: UUID | None = None, **fields: object) -> list[UUID]:
    """So many changes, each with its audit row and nothing else."""
    written = []
    async with db.unfinished(Sight(PLATFORM), "test") as tx:
        for _ in range(count):
            made = entry(org_id, **fields)
            await finish(tx, made)
            written.append(made.id)
    return written


async def seal_all(db: Database, keys: SigningKeys, policy: PolicyReader) -> int:
    total = 0
    while sealed := await audit_seal(db, keys, policy):
        total += sealed
    return total
