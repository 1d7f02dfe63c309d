"""The verbs of agents' versions: upload in parts, publish, retire, tell a node to become one, hand it its bytes.

Always holds: what is published is, byte for byte, the file whose digest and size were said first, and stays so; a node
is told the digest in a signed order, and is given only the artifact that an order of its own names."""

import base64
import binascii
import hashlib
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

from gpuaas.contracts.error_codes import Code
from gpuaas.contracts.http.artifacts import PART_BYTES, ArtifactCreate, ArtifactState, NodeAgentUpdate
from gpuaas.contracts.tasks.catalogue import AgentUpdate
from gpuaas.domains.nodes.artifacts import store
from gpuaas.domains.nodes.artifacts.models import Artifact, Part
from gpuaas.domains.nodes.registry import service as registry
from gpuaas.domains.nodes.tasks import service as tasks
from gpuaas.domains.nodes.tasks.models import TaskRow
from gpuaas.domains.nodes.tasks.states import AT_NODE
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight, Tx
from gpuaas.kit.errors import Conflict, Detail, Missing, Refused, Unavailable
from gpuaas.kit.ids import ArtifactId, TaskId, new_id
from gpuaas.ports.objects import ObjectMissing, Objects, ObjectsAway

EVERYTHING = Sight(PLATFORM)
MIB = 1024 * 1024
RECENT = 20
DELETED_AT_ONCE = 100
_LAST = TaskId(UUID(int=(1 << 128) - 1))

artifact_get = store.get
artifact_list = store.list_all
artifacts_overdue = store.move_overdue


# an operator's --------------------------------------------------------------------------------------------------------
async def artifact_create(tx: Tx, wanted: ArtifactCreate, *, most_mib: int) -> Artifact:
    """Begin an upload: what the file will be is said first."""
    if wanted.size > most_mib * MIB:
        raise Refused(
            Code.ARTIFACT_TOO_LARGE,
            f"An artifact has at most {most_mib} MiB here.",
            details=[Detail("size", f"more than {most_mib * MIB} bytes")],
        )
    artifact_id = ArtifactId(new_id())
    await store.insert(tx, artifact_id, wanted)
    return await store.get(tx, artifact_id)


async def part_keep(db: Database, objects: Objects, artifact_id: UUID, number: int, content: str) -> Part:
    """Put a part's bytes where they stay. Uses the network: not inside of a transaction."""
    try:
        data = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused(
            Code.REQUEST_INVALID, "The content is not base64.", details=[Detail("content", "not base64")]
        ) from error
    async with db.read(EVERYTHING) as tx:
        artifact = await store.get(tx, artifact_id)
    _require_open(artifact.state)
    due = min(artifact.size - (number - 1) * PART_BYTES, PART_BYTES)
    if len(data) != due:
        raise Refused(
            Code.REQUEST_INVALID,
            f"Part {number} of this artifact has {max(due, 0)} bytes.",
            details=[Detail("content", f"{len(data)} bytes, not base64 of {max(due, 0)}")],
        )
    part = Part(artifact_id=artifact.id, number=number, digest=hashlib.sha256(data).hexdigest(), size=len(data))
    try:
        await objects.put(part.name, data)
    except ObjectsAway as error:
        raise _away(error) from error
    return part


async def part_add(tx: Tx, part: Part) -> Artifact:
    _require_open(await store.lock(tx, part.artifact_id))
    await store.part_add(tx, part)
    return await store.get(tx, part.artifact_id)


async def artifact_verify(db: Database, objects: Objects, artifact_id: UUID) -> list[Part]:
    """Read back what was uploaded; the parts, if together they are the file that was said. Not in a transaction."""
    async with db.read(EVERYTHING) as tx:
        artifact = await store.get(tx, artifact_id)
        parts = await store.parts(tx, artifact_id)
    _require_open(artifact.state)
    found = hashlib.sha256()
    try:
        for part in parts:
            found.update(await objects.get(part.name))
    except ObjectMissing as error:
        raise _damaged("a part is gone") from error
    except ObjectsAway as error:
        raise _away(error) from error
    if artifact.received != artifact.size or f"sha256:{found.hexdigest()}" != artifact.digest:
        raise _damaged(f"{artifact.received} of {artifact.size} bytes, sha256:{found.hexdigest()}")
    return parts


async def artifact_publish(tx: Tx, artifact_id: UUID, verified: Sequence[Part]) -> Artifact:
    """From now on nodes can be told to become it. `verified`: the parts that were read back."""
    await store.lock(tx, artifact_id)
    if await store.parts(tx, artifact_id) != list(verified):
        raise _damaged("parts were replaced meanwhile")
    await store.move(tx, artifact_id, to=ArtifactState.PUBLISHED)
    return await store.get(tx, artifact_id)


async def artifact_retire(tx: Tx, artifact_id: UUID) -> Artifact:
    await store.lock(tx, artifact_id)
    await store.move(tx, artifact_id, to=ArtifactState.RETIRED)
    return await store.get(tx, artifact_id)


async def node_agent_update(tx: Tx, node_id: UUID, wanted: NodeAgentUpdate) -> TaskRow:
    """Tell a node to become a version; the order, which is signed, names the digest."""
    await registry.node_require_active(tx, node_id)
    artifact = await store.published(tx, wanted.version)
    task = AgentUpdate(
        version=artifact.version,
        digest=artifact.digest,
        artifact_id=artifact.id,
        healthy_within_seconds=wanted.healthy_within_seconds,
    )
    return await tasks.task_create(tx, node_id, task, subject_id=artifact.id)


# a node's -------------------------------------------------------------------------------------------------------------
async def artifact_of_node(tx: Tx, node_id: UUID, artifact_id: UUID) -> list[Part]:
    """What an order that this node has in hand names; any other is as if it were not."""
    orders = await tasks.task_list(
        tx, node_id=node_id, state=None, type=AgentUpdate.TYPE, subject_id=artifact_id, before=_LAST, limit=RECENT
    )
    parts = await store.parts(tx, artifact_id) if any(order.state in AT_NODE for order in orders) else []
    if not parts:
        raise Missing(Code.ARTIFACT_MISSING, "There is no such artifact.")
    return parts


async def content(objects: Objects, parts: Sequence[Part]) -> AsyncIterator[bytes]:
    """Part by part: never more than one in memory."""
    for part in parts:
        try:
            yield await objects.get(part.name)
        except ObjectMissing as error:
            raise _away(error) from error
        except ObjectsAway as error:
            raise _away(error) from error


# ends -----------------------------------------------------------------------------------------------------------------
async def bytes_delete(db: Database, objects: Objects) -> int:
    """Of what was retired a while ago; the bytes first, so that what is forgotten is gone."""
    async with db.read(EVERYTHING) as tx:
        dead = await store.dead(tx, limit=DELETED_AT_ONCE)
    if not dead:
        return 0
    await objects.delete([part.name for part in dead])
    async with db.transaction(EVERYTHING, "system:nodes.artifacts") as tx:
        await store.forget(tx, dead)
    return len(dead)


def _require_open(state: ArtifactState) -> None:
    if state is not ArtifactState.UPLOADING:
        raise Conflict(Code.STATE_MOVE_REFUSED, f"The artifact is {state}: nothing is uploaded to it any more.")


def _damaged(log: str) -> Conflict:
    sentence = "What was uploaded is not the file its digest and size say. Upload it again."
    return Conflict(Code.ARTIFACT_DAMAGED, sentence, log=log)


def _away(error: Exception) -> Unavailable:
    return Unavailable(
        Code.DEPENDENCY_UNAVAILABLE, "Where files are kept is away. Try again.", log=str(error), retry_after=5
    )
