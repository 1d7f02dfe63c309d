"""SQL of certificates."""

from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.domains.allocations.certificates.models import Certificate
from gpuaas.infra.postgres.tx import Tx, decode, decode_all
from gpuaas.kit.errors import Missing

INSERT = """
INSERT INTO sanitisation_certificates (id, org_id, allocation_id, node_id, serials, key_id, envelope, issued_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (allocation_id, node_id) DO NOTHING
"""
GET = """
SELECT c.* FROM sanitisation_certificates c JOIN allocations a ON a.id = c.allocation_id
WHERE c.id = $1 AND a.project_id = $2
"""
OF_ALLOCATION = "SELECT * FROM sanitisation_certificates WHERE allocation_id = $1 ORDER BY id"
LIST = """
SELECT c.* FROM sanitisation_certificates c JOIN allocations a ON a.id = c.allocation_id
WHERE a.project_id = $1 AND c.id < $2 AND ($3::uuid IS NULL OR c.allocation_id = $3) ORDER BY c.id DESC LIMIT $4
"""


async def insert(tx: Tx, made: Certificate) -> bool:
    """False when the allocation has one of this node."""
    return (
        await tx.run(
            INSERT,
            made.id,
            made.org_id,
            made.allocation_id,
            made.node_id,
            made.serials,
            made.key_id,
            made.envelope,
            made.issued_at,
        )
        > 0
    )


async def get(tx: Tx, project_id: UUID, certificate_id: UUID) -> Certificate:
    row = await tx.row(GET, certificate_id, project_id)
    if row is None:
        raise Missing(Code.CERTIFICATE_OF_RELEASE_MISSING, "There is no such sanitisation certificate here.")
    return decode(Certificate, row)


async def of_allocation(tx: Tx, allocation_id: UUID) -> list[Certificate]:
    return decode_all(Certificate, await tx.rows(OF_ALLOCATION, allocation_id))


async def list_of_project(
    tx: Tx, project_id: UUID, *, allocation_id: UUID | None, before: UUID, limit: int
) -> list[Certificate]:
    return decode_all(Certificate, await tx.rows(LIST, project_id, before, allocation_id, limit))
