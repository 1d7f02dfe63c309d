"""SQL of agents' versions and of the parts they were uploaded in."""

from collections.abc import Sequence
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.artifacts import ArtifactCreate, ArtifactState
from gpuaas.domains.nodes.artifacts.models import Artifact, Part
from gpuaas.domains.nodes.artifacts.states import LIFE, UPLOAD
from gpuaas.infra.postgres.tx import Tx, conflicts, decode, decode_all
from gpuaas.kit.errors import Conflict, Missing
from gpuaas.kit.ids import ArtifactId

_VERSIONS = {"agent_artifacts_one_version": Code.ARTIFACT_VERSION_TAKEN}
_COLUMNS = """a.id, a.version, a.digest, a.size, a.state, a.state_since, a.created_by, a.created_at,
    (SELECT coalesce(sum(p.size), 0)::bigint FROM agent_artifact_parts p WHERE p.artifact_id = a.id) AS received"""


def _sql(text: str) -> str:
    return text.replace("COLUMNS", _COLUMNS)


INSERT = """
INSERT INTO agent_artifacts (id, version, digest, size, state, due_at, created_by)
VALUES ($1, $2, $3, $4, 'uploading', now() + $5::interval, $6)
"""
TAKEN = "SELECT EXISTS (SELECT FROM agent_artifacts WHERE version = $1 AND state = 'published')"
GET = _sql("SELECT COLUMNS FROM agent_artifacts a WHERE a.id = $1")
LOCK = "SELECT state FROM agent_artifacts WHERE id = $1 FOR UPDATE"
PUBLISHED = _sql("SELECT COLUMNS FROM agent_artifacts a WHERE a.version = $1 AND a.state = 'published'")
LIST = _sql("""
SELECT COLUMNS FROM agent_artifacts a
WHERE a.id > $1 AND ($2::text IS NULL OR a.state = $2) AND ($3::text IS NULL OR a.version = $3)
ORDER BY a.id LIMIT $4
""")
MOVE = """
UPDATE agent_artifacts SET state = $2, state_since = now(), due_at = NULL WHERE id = $1 AND state = ANY($3)
RETURNING true
"""
MOVE_OVERDUE = """
UPDATE agent_artifacts SET state = $1, state_since = now(), due_at = NULL
WHERE due_at < now() AND state = ANY($2) RETURNING id
"""
ADD_PART = """
INSERT INTO agent_artifact_parts (artifact_id, number, digest, size) VALUES ($1, $2, $3, $4)
ON CONFLICT (artifact_id, number) DO UPDATE SET digest = excluded.digest, size = excluded.size
"""
PARTS = "SELECT artifact_id, number, digest, size FROM agent_artifact_parts WHERE artifact_id = $1 ORDER BY number"
# Long enough after its end that nobody is still fetching: an order lives for ten minutes.
DEAD = """
SELECT p.artifact_id, p.number, p.digest, p.size FROM agent_artifact_parts p
JOIN agent_artifacts a ON a.id = p.artifact_id
WHERE a.state = 'retired' AND a.state_since < now() - interval '1 day' ORDER BY p.artifact_id, p.number LIMIT $1
"""
FORGET = "DELETE FROM agent_artifact_parts WHERE artifact_id = $1 AND number = $2"


async def insert(tx: Tx, artifact_id: ArtifactId, wanted: ArtifactCreate) -> None:
    if await tx.value(TAKEN, wanted.version):
        raise taken()
    await tx.run(INSERT, artifact_id, wanted.version, wanted.digest, wanted.size, UPLOAD, tx.actor_name)


def taken() -> Conflict:
    return Conflict(Code.ARTIFACT_VERSION_TAKEN, "An artifact of this version is published. Retire it first.")


async def get(tx: Tx, artifact_id: UUID) -> Artifact:
    row = await tx.row(GET, artifact_id)
    if row is None:
        raise Missing(Code.ARTIFACT_MISSING, "There is no such artifact.")
    return decode(Artifact, row)


async def lock(tx: Tx, artifact_id: UUID) -> ArtifactState:
    state = await tx.value(LOCK, artifact_id)
    if state is None:
        raise Missing(Code.ARTIFACT_MISSING, "There is no such artifact.")
    return ArtifactState(state)


async def published(tx: Tx, version: str) -> Artifact:
    row = await tx.row(PUBLISHED, version)
    if row is None:
        raise Missing(Code.ARTIFACT_MISSING, f"No artifact of version {version} is published.")
    return decode(Artifact, row)


async def list_all(
    tx: Tx, *, state: ArtifactState | None, version: str | None, after: UUID, limit: int
) -> list[Artifact]:
    return decode_all(Artifact, await tx.rows(LIST, after, state, version, limit))


async def move(tx: Tx, artifact_id: UUID, *, to: ArtifactState) -> None:
    with conflicts(_VERSIONS):
        moved = await tx.value(MOVE, artifact_id, to, LIFE.sources(to))
    if moved is None:
        raise Conflict(Code.STATE_MOVE_REFUSED, f"The artifact cannot become {to} now.")


async def move_overdue(tx: Tx) -> list[UUID]:
    moved: list[UUID] = []
    for state, (_, to) in LIFE.deadlines().items():
        moved += [row["id"] for row in await tx.rows(MOVE_OVERDUE, to, [state])]
    return moved


async def part_add(tx: Tx, part: Part) -> None:
    await tx.run(ADD_PART, part.artifact_id, part.number, part.digest, part.size)


async def parts(tx: Tx, artifact_id: UUID) -> list[Part]:
    return decode_all(Part, await tx.rows(PARTS, artifact_id))


async def dead(tx: Tx, *, limit: int) -> list[Part]:
    return decode_all(Part, await tx.rows(DEAD, limit))


async def forget(tx: Tx, gone: Sequence[Part]) -> None:
    for part in gone:
        await tx.run(FORGET, part.artifact_id, part.number)
