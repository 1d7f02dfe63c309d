"""Valid requests for the operations on nodes, their tasks and their slots."""

import base64
import hashlib
from datetime import timedelta
from typing import Any
from uuid import UUID

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from gpuaas.kit.secrets import BOOTSTRAP_PREFIX, new_token, token_hash
from tests.every.examples import Example, Stage, example, plain
from tests.every.fleet_world import put_sku
from tests.every.world import Setting
from tests.support.live import OBJECTS

REASON = {"reason": "as an example"}


async def put_node(s: Setting, *, state: str = "active", **more: Any) -> UUID:
    node_id = new_id()
    await s.put(
        "nodes",
        id=node_id,
        name=f"node-{node_id.hex[-12:]}",
        region="eu-1",
        sku_id=await put_sku(s),
        state=state,
        **more,
    )
    await s.put("task_sequences", node_id=node_id)
    return node_id


async def put_task(s: Setting, *, state: str = "queued", **more: Any) -> UUID:
    task_id, now = new_id(), clock.now()
    await s.put(
        "tasks",
        id=task_id,
        node_id=await put_node(s),
        type="node.inspect",
        version=1,
        arguments={},
        deadline_seconds=60,
        state=state,
        due_at=now + timedelta(minutes=10),
        correlation_id="",
        traceparent="",
        created_by="tests",
        **more,
    )
    return task_id


async def put_slot(s: Setting, *, quarantined: bool = False) -> UUID:
    slot_id, node_id, serial = new_id(), await put_node(s), f"S{new_id().hex[-10:]}"
    await s.put(
        "slots",
        id=slot_id,
        node_id=node_id,
        sku_id=await s.sql.fetchval("SELECT sku_id FROM nodes WHERE id = $1", node_id),
        serial=serial,
        gpu_index=0,
        address="0000:01:00.0",
        vendor="NVIDIA",
        model="H200",
        memory_bytes=1 << 37,
        numa=0,
        iommu_group=1,
        present=True,
    )
    if quarantined:
        await s.put(
            "slot_quarantines",
            id=new_id(),
            slot_id=slot_id,
            node_id=node_id,
            serial=serial,
            reason="XID 79",
            strike=True,
        )
    return slot_id


async def put_task_key(s: Setting) -> None:
    """The key that signs tasks, once: without one nobody is enrolled."""
    if not await s.sql.fetchval("SELECT EXISTS (SELECT FROM task_keys)"):
        await s.put("task_keys", key_id="example", public_key=base64.b64encode(b"k" * 32).decode())


def signing_request() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return request.public_bytes(Encoding.PEM).decode()


for _id in ("node_list", "task_list", "slot_list", "fleet_health"):
    plain(_id)


def _on_a_node(operation_id: str, body: dict[str, Any] | None = None, **node: Any) -> None:
    async def build(stage: Stage) -> Example:
        return Example(path={"node_id": await put_node(stage.setting, **node)}, body=body)

    build.__name__ = operation_id
    example(build)


for _id in (
    "node_get",
    "node_metrics",
    "node_health_list",
    "node_uncordon",
    "node_undrain",
    "node_inspect",
    "node_remove",
):
    _on_a_node(_id)
for _id in ("node_cordon", "node_drain", "node_disable", "node_reenrol"):
    _on_a_node(_id, REASON)
_on_a_node("node_enable", state="disabled")
_on_a_node("node_update", {"labels": {"rack": "r1"}, "tags": ["spare"]})
_on_a_node("node_check", {"load": False})
_on_a_node("node_probe", {"port": 9}, address="10.255.255.254")
_on_a_node("node_return", REASON, quarantine_reason="provisions_failed", quarantined_at="2026-01-01T00:00:00Z")


@example
async def node_create(stage: Stage) -> Example:
    body = {"name": f"node-{new_id().hex[-12:]}", "region": "eu-1", "sku_id": str(await put_sku(stage.setting))}
    return Example(body=body)


@example
async def node_enrol(stage: Stage) -> Example:
    token, node_id = new_token(BOOTSTRAP_PREFIX), await put_node(stage.setting, state="enrolling")
    await put_task_key(stage.setting)
    now = clock.now()
    await stage.setting.put(
        "bootstrap_tokens",
        id=new_id(),
        node_id=node_id,
        token_hash=token_hash(token),
        created_at=now,
        expires_at=now + timedelta(minutes=30),
    )
    return Example(body={"token": token, "csr": signing_request(), "agent_version": "0.1.0"})


@example
async def task_get(stage: Stage) -> Example:
    return Example(path={"task_id": await put_task(stage.setting)})


@example
async def task_cancel(stage: Stage) -> Example:
    return Example(path={"task_id": await put_task(stage.setting)}, body=REASON)


@example
async def slot_quarantine(stage: Stage) -> Example:
    return Example(path={"slot_id": await put_slot(stage.setting)}, body=REASON)


@example
async def slot_return(stage: Stage) -> Example:
    return Example(path={"slot_id": await put_slot(stage.setting, quarantined=True)}, body=REASON)


async def put_artifact(s: Setting, *, state: str = "uploading") -> tuple[UUID, str, bytes]:
    """A version of the agent of one part, which is where its bytes are kept."""
    artifact_id, content = new_id(), new_id().hex.encode()
    digest = hashlib.sha256(content).hexdigest()
    version = f"1.0.{artifact_id.hex}"
    await s.put(
        "agent_artifacts",
        id=artifact_id,
        version=version,
        digest=f"sha256:{digest}",
        size=len(content),
        state=state,
        due_at=clock.now() + timedelta(hours=1) if state == "uploading" else None,
        created_by="tests",
    )
    await s.put("agent_artifact_parts", artifact_id=artifact_id, number=1, digest=digest, size=len(content))
    kept = OBJECTS / "agent-artifacts" / str(artifact_id)
    kept.mkdir(parents=True)
    (kept / f"1-{digest}").write_bytes(content)
    return artifact_id, version, content


plain("artifact_list")


@example
async def artifact_create(stage: Stage) -> Example:
    digest = "sha256:" + "0" * 64
    return Example(body={"version": f"2.0.{new_id().hex}", "digest": digest, "size": 10})


@example
async def artifact_upload(stage: Stage) -> Example:
    artifact_id, _, content = await put_artifact(stage.setting)
    encoded = base64.b64encode(content).decode()
    return Example(path={"artifact_id": artifact_id, "number": 1}, body={"content": encoded})


@example
async def artifact_publish(stage: Stage) -> Example:
    return Example(path={"artifact_id": (await put_artifact(stage.setting))[0]})


@example
async def artifact_retire(stage: Stage) -> Example:
    return Example(path={"artifact_id": (await put_artifact(stage.setting, state="published"))[0]}, body=REASON)


@example
async def node_agent_update(stage: Stage) -> Example:
    _, version, _ = await put_artifact(stage.setting, state="published")
    return Example(path={"node_id": await put_node(stage.setting)}, body={"version": version})
