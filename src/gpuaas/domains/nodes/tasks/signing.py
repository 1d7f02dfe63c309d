"""The task-signing key, and what is signed with it. Only the worker has one: whoever takes over an api host can create
tasks' rows, but no order a node would follow."""

import base64
import hashlib
from datetime import datetime, timedelta

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gpuaas.contracts.tasks.base import MAX_LIFE_SECONDS, PAYLOAD_TYPE, Order
from gpuaas.contracts.tasks.keys import STATEMENT_TYPE, KeyStatement
from gpuaas.domains.nodes.tasks.models import Signed, TaskRow
from gpuaas.kit import dsse

SEED_BYTES = 32
LIFE = timedelta(seconds=MAX_LIFE_SECONDS)


class TaskSigner:
    """One Ed25519 key. `previous` is the key it follows, there while one is replaced by the other."""

    def __init__(self, seed: bytes, previous: "TaskSigner | None" = None) -> None:
        if len(seed) != SEED_BYTES:
            raise ValueError(f"a task-signing key is {SEED_BYTES} bytes")
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        raw = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.public_key = base64.b64encode(raw).decode()
        self.key_id = "task-" + hashlib.sha256(raw).hexdigest()[:16]
        self.previous = previous

    @classmethod
    def from_text(cls, text: str, previous: str = "") -> "TaskSigner":
        """From seeds in base64."""
        before = cls(base64.b64decode(previous, validate=True)) if previous else None
        return cls(base64.b64decode(text, validate=True), before)

    def sign(self, task: TaskRow, *, sequence: int, now: datetime) -> Signed:
        expires_at = now + LIFE
        order = Order(
            task_id=task.id,
            type=task.type,
            version=task.version,
            node_id=task.node_id,
            subject_id=task.subject_id,
            sequence=sequence,
            issued_at=now,
            expires_at=expires_at,
            deadline_seconds=task.deadline_seconds,
            correlation_id=task.correlation_id,
            traceparent=task.traceparent,
            arguments=msgspec.Raw(task.arguments.encode()),
        )
        envelope = dsse.seal(PAYLOAD_TYPE, msgspec.json.encode(order), self.key_id, self._key).decode()
        return Signed(id=task.id, sequence=sequence, envelope=envelope, issued_at=now, expires_at=expires_at)

    def vouch_for(self, successor: "TaskSigner", now: datetime) -> str:
        """The statement by which agents that trust this key come to trust its successor."""
        statement = KeyStatement(
            key_id=successor.key_id, public_key=successor.public_key, previous_key_id=self.key_id, issued_at=now
        )
        return dsse.seal(STATEMENT_TYPE, msgspec.json.encode(statement), self.key_id, self._key).decode()
