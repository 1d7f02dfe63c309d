"""SQL of authorities, certificates and bootstrap tokens. A token is used by one statement: the database decides the
race."""

from uuid import UUID

from gpuaas.contracts.http.pki import AuthorityKind
from gpuaas.domains.pki.models import AuthorityRow, AuthorityStanding, CertificateRow, NewCertificate
from gpuaas.infra.postgres.tx import Row, Tx, decode

# Two programs that find no authority at once must not both make one.
LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('certificate_authorities', 0))"
# Renewals of one node are counted, and repeated, one after the other.
LOCK_NODE = "SELECT pg_advisory_xact_lock(hashtextextended('certificates of ' || $1::text, 0))"
SUPERSEDED = "SELECT superseded_at IS NOT NULL FROM certificates WHERE node_id = $1 AND serial = $2"
SIGNING = """
SELECT * FROM certificate_authorities
WHERE kind = $1 AND retired_at IS NULL AND distrusted_at IS NULL AND not_after > now()
"""
ADD_AUTHORITY = """
INSERT INTO certificate_authorities
    (id, kind, parent_id, subject, certificate, fingerprint, key_sealed, not_before, not_after)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING *
"""
RETIRE = "UPDATE certificate_authorities SET retired_at = now() WHERE kind = $1 AND retired_at IS NULL"
DISTRUST = """
UPDATE certificate_authorities SET distrusted_at = now(), retired_at = coalesce(retired_at, now())
WHERE distrusted_at IS NULL
  AND (($1 = 'root' AND kind = 'cross') OR (retired_at IS NOT NULL AND (kind = $1 OR $1 = 'root')))
"""
# What a root or cross certificate vouches for is below it: intermediates of the root, and of the root it leads to.
STANDING = """
WITH live AS (
    SELECT authority_id, count(*) AS n FROM certificates
    WHERE not_after > now() AND revoked_at IS NULL GROUP BY authority_id
), below AS (
    SELECT i.parent_id, sum(l.n) AS n FROM certificate_authorities i JOIN live l ON l.authority_id = i.id
    WHERE i.distrusted_at IS NULL GROUP BY i.parent_id
)
SELECT a.*, a.not_after <= now() AS ended,
       coalesce(CASE WHEN a.kind = 'cross' THEN (SELECT sum(n) FROM live)
                     WHEN a.kind = 'root' THEN (SELECT n FROM below WHERE parent_id = a.id)
                     ELSE (SELECT n FROM live WHERE authority_id = a.id) END, 0)::bigint AS live_certificates
FROM certificate_authorities a ORDER BY a.created_at DESC, a.id DESC
"""
TRUST_MARK = """
SELECT coalesce(string_agg(id::text || coalesce(retired_at::text, '') || coalesce(distrusted_at::text, ''), ' '
                           ORDER BY id), '') FROM certificate_authorities
"""
ADD_CERTIFICATE = """
INSERT INTO certificates (id, kind, node_id, authority_id, serial, fingerprint, public_key_hash, certificate,
                          not_before, not_after)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING *
"""
LIST = """
SELECT * FROM certificates WHERE ($1::uuid IS NULL OR node_id = $1) AND id > $2 ORDER BY id LIMIT $3
"""
GET = "SELECT * FROM certificates WHERE id = $1 AND kind = 'node'"
SAME_KEY = """
SELECT c.* FROM certificates c JOIN certificate_authorities a ON a.id = c.authority_id
WHERE c.node_id = $1 AND c.public_key_hash = $2 AND c.revoked_at IS NULL AND c.superseded_at IS NULL
  AND a.retired_at IS NULL AND now() < c.issued_at + (c.not_after - c.issued_at) / 2
ORDER BY c.id DESC LIMIT 1
"""
RECENT = """
SELECT count(*) FROM certificates WHERE node_id = $1 AND issued_at > now() - $2 * interval '1 second'
"""
REVOKE = """
UPDATE certificates SET revoked_at = now(), revoked_reason = $2
WHERE id = $1 AND kind = 'node' AND revoked_at IS NULL AND not_after > now() RETURNING *
"""
REVOKE_NODE = """
UPDATE certificates SET revoked_at = now(), revoked_reason = $2
WHERE node_id = $1 AND revoked_at IS NULL AND not_after > now()
"""
REVOKED_SINCE = """
SELECT fingerprint FROM certificates WHERE revoked_at > now() - $1 * interval '1 second'
"""
TOKENS_RETIRE = """
UPDATE bootstrap_tokens SET revoked_at = now() WHERE node_id = $1 AND used_at IS NULL AND revoked_at IS NULL
"""
INSERT_BOOTSTRAP = """
INSERT INTO bootstrap_tokens (id, node_id, token_hash, expires_at)
VALUES ($1, $2, $3, now() + $4 * interval '1 second') RETURNING expires_at
"""
USE = """
UPDATE bootstrap_tokens SET used_at = now()
WHERE token_hash = $1 AND used_at IS NULL AND revoked_at IS NULL AND expires_at > now() RETURNING id, node_id
"""
NOTE_USE = "UPDATE bootstrap_tokens SET certificate_id = $2 WHERE id = $1"
PRUNE_CERTIFICATES = "DELETE FROM certificates WHERE not_after < now() - $1 * interval '1 day'"
PRUNE_TOKENS = "DELETE FROM bootstrap_tokens WHERE expires_at < now() - $1 * interval '1 day'"


async def lock(tx: Tx) -> None:
    await tx.value(LOCK)


async def lock_node(tx: Tx, node_id: UUID) -> None:
    await tx.value(LOCK_NODE, str(node_id))


async def is_superseded(tx: Tx, node_id: UUID, serial: str) -> bool:
    return bool(await tx.value(SUPERSEDED, node_id, serial))


async def signing(tx: Tx, kind: AuthorityKind) -> AuthorityRow | None:
    row = await tx.row(SIGNING, kind)
    return None if row is None else decode(AuthorityRow, row)


async def authority_add(tx: Tx, new: AuthorityRow) -> AuthorityRow:
    row = await tx.row(
        ADD_AUTHORITY,
        new.id,
        new.kind,
        new.parent_id,
        new.subject,
        new.certificate,
        new.fingerprint,
        new.key_sealed,
        new.not_before,
        new.not_after,
    )
    return decode(AuthorityRow, _there(row))


async def retire(tx: Tx, kind: AuthorityKind) -> None:
    await tx.run(RETIRE, kind)


async def distrust_retired(tx: Tx, kind: AuthorityKind) -> None:
    await tx.run(DISTRUST, kind)


async def authorities(tx: Tx) -> list[AuthorityStanding]:
    """All there ever were, newest first."""
    return [decode(AuthorityStanding, row) for row in await tx.rows(STANDING)]


async def trust_mark(tx: Tx) -> str:
    return str(await tx.value(TRUST_MARK))


async def certificate_add(tx: Tx, new: NewCertificate) -> CertificateRow:
    row = await tx.row(
        ADD_CERTIFICATE,
        new.id,
        new.kind,
        new.node_id,
        new.authority_id,
        new.serial,
        new.fingerprint,
        new.public_key_hash,
        new.certificate,
        new.not_before,
        new.not_after,
    )
    return decode(CertificateRow, _there(row))


async def certificates(tx: Tx, node_id: UUID | None, *, after: UUID, limit: int) -> list[CertificateRow]:
    return [decode(CertificateRow, row) for row in await tx.rows(LIST, node_id, after, limit)]


async def certificate_get(tx: Tx, certificate_id: UUID) -> CertificateRow | None:
    row = await tx.row(GET, certificate_id)
    return None if row is None else decode(CertificateRow, row)


async def with_same_key(tx: Tx, node_id: UUID, public_key_hash: bytes) -> CertificateRow | None:
    """The node's certificate for this key, in the first half of its life."""
    row = await tx.row(SAME_KEY, node_id, public_key_hash)
    return None if row is None else decode(CertificateRow, row)


async def recent_count(tx: Tx, node_id: UUID, seconds: int) -> int:
    return int(await tx.value(RECENT, node_id, seconds))


async def revoke(tx: Tx, certificate_id: UUID, reason: str) -> CertificateRow | None:
    row = await tx.row(REVOKE, certificate_id, reason)
    return None if row is None else decode(CertificateRow, row)


async def revoke_node(tx: Tx, node_id: UUID, reason: str) -> int:
    return await tx.run(REVOKE_NODE, node_id, reason)


async def revoked_since(tx: Tx, seconds: int) -> frozenset[bytes]:
    return frozenset(row["fingerprint"] for row in await tx.rows(REVOKED_SINCE, seconds))


async def tokens_retire(tx: Tx, node_id: UUID) -> None:
    await tx.run(TOKENS_RETIRE, node_id)


async def token_add(tx: Tx, token_id: UUID, node_id: UUID, token_hash: bytes, seconds: int) -> Row:
    return _there(await tx.row(INSERT_BOOTSTRAP, token_id, node_id, token_hash, seconds))


async def token_use(tx: Tx, token_hash: bytes) -> tuple[UUID, UUID] | None:
    """The token's id and its node's, once."""
    row = await tx.row(USE, token_hash)
    return None if row is None else (row["id"], row["node_id"])


async def token_note(tx: Tx, token_id: UUID, certificate_id: UUID) -> None:
    await tx.run(NOTE_USE, token_id, certificate_id)


async def prune(tx: Tx, days: int) -> int:
    return await tx.run(PRUNE_CERTIFICATES, days) + await tx.run(PRUNE_TOKENS, days)


def _there(row: Row | None) -> Row:
    if row is None:
        raise AssertionError("an INSERT … RETURNING gives a row")
    return row
