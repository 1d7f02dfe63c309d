"""SQL of certificates as they are shown: looked up by the hash of all their bytes, so that only what was issued, as it
was issued, is found."""

from collections.abc import Sequence

from gpuaas.domains.pki.agents.models import Standing
from gpuaas.infra.postgres.tx import Tx, decode

STANDINGS = """
SELECT c.fingerprint, c.node_id, c.serial, c.not_before, c.not_after, c.used_at IS NOT NULL AS used,
       c.revoked_at IS NOT NULL AS revoked, extract(epoch FROM now() - c.superseded_at)::float8 AS superseded_for,
       a.distrusted_at IS NULL AND a.not_after > now() AND r.distrusted_at IS NULL AND r.not_after > now()
           AS authority_trusted
FROM certificates c
JOIN certificate_authorities a ON a.id = c.authority_id
JOIN certificate_authorities r ON r.id = a.parent_id
WHERE c.fingerprint = ANY($1) AND c.kind = 'node'
"""
# Which of these would not be let in any more: for all who are connected, in one question.
FALLEN = """
SELECT f AS fingerprint FROM unnest($1::bytea[]) AS f
WHERE NOT EXISTS (
    SELECT FROM certificates c
    JOIN certificate_authorities a ON a.id = c.authority_id
    JOIN certificate_authorities r ON r.id = a.parent_id
    WHERE c.fingerprint = f AND c.kind = 'node' AND c.revoked_at IS NULL
      AND (c.superseded_at IS NULL OR c.superseded_at >= now() - make_interval(secs => $2))
      AND a.distrusted_at IS NULL AND a.not_after > now() AND r.distrusted_at IS NULL AND r.not_after > now())
"""
# The first time a certificate is shown, those the node had before are replaced by it.
NOTE_USED = """
UPDATE certificates SET used_at = now() WHERE id IN (
    SELECT id FROM certificates WHERE fingerprint = ANY($1) AND used_at IS NULL AND revoked_at IS NULL
    ORDER BY id FOR UPDATE)
RETURNING id, node_id
"""
# Before: by the database's clock. Ids are born by the clocks of replicas, which differ.
SUPERSEDE = """
UPDATE certificates SET superseded_at = now() WHERE id IN (
    SELECT c.id FROM certificates c JOIN unnest($1::uuid[], $2::uuid[]) AS used (id, node_id) USING (node_id)
    JOIN certificates u ON u.id = used.id
    WHERE (c.issued_at, c.id) < (u.issued_at, u.id) AND c.superseded_at IS NULL ORDER BY c.id FOR UPDATE OF c)
"""


async def standings(tx: Tx, fingerprints: Sequence[bytes]) -> dict[bytes, Standing]:
    return {row["fingerprint"]: decode(Standing, row) for row in await tx.rows(STANDINGS, list(fingerprints))}


async def fallen(tx: Tx, fingerprints: Sequence[bytes], *, superseded_seconds: int) -> list[bytes]:
    return [row["fingerprint"] for row in await tx.rows(FALLEN, list(fingerprints), superseded_seconds)]


async def note_used(tx: Tx, fingerprints: Sequence[bytes]) -> None:
    used = await tx.rows(NOTE_USED, list(fingerprints))
    await tx.run(SUPERSEDE, [row["id"] for row in used], [row["node_id"] for row in used])
