"""Whether an envelope is an order for this node to follow, decided before anything of it is acted on.

Always holds: nothing is read before its signature holds over the exact bytes; only what is for this node, in turn, new,
known and in time becomes a task. Pure: what was seen and what time it is are given."""

import base64
from collections.abc import Container, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

import gpuaas.contracts.tasks.catalogue  # noqa: F401 - declares the types of tasks
from gpuaas.contracts.tasks.base import MAX_LIFE_SECONDS, PAYLOAD_TYPE, TASK_TYPES, Order, Task
from gpuaas.kit import dsse

CLOCK_TOLERANCE = timedelta(minutes=5)
"""How wrong this machine's clock, or the control plane's, may be."""
_LIFE = timedelta(seconds=MAX_LIFE_SECONDS)


class Refusal(Exception):
    """An order that is not followed. `sequence`: it was ours and in turn, so this number is used up."""

    def __init__(self, code: str, reason: str, *, task_id: UUID | None = None, sequence: int = 0) -> None:
        super().__init__(reason)
        self.code = code
        self.task_id = task_id
        self.sequence = sequence


class Known(Exception):
    """An order that came before and came again: harmless, and nothing to do."""


@dataclass(frozen=True)
class Turn:
    """What the agent remembers: whose orders it follows, and which of them it has had."""

    node_id: UUID
    next_sequence: int
    seen: Container[UUID]


def read_order(envelope: bytes, keys: Mapping[str, Ed25519PublicKey]) -> tuple[Order, bytes]:
    """The order and the bytes that were signed."""
    try:
        payload, _ = dsse.unseal(envelope, PAYLOAD_TYPE, keys)
    except dsse.EnvelopeRefused as error:
        raise Refusal("bad_signature", str(error), task_id=claimed_id(envelope)) from error
    try:
        order = msgspec.json.decode(payload, type=Order)
    except msgspec.MsgspecError as error:
        raise Refusal("malformed", f"the order cannot be read: {error}", task_id=claimed_id(envelope)) from error
    return order, payload


def accept(order: Order, turn: Turn, now: datetime) -> Task:
    """The task to run; Refusal or Known otherwise."""
    if order.node_id != turn.node_id:
        raise Refusal("other_node", "the order is for another node", task_id=order.task_id)
    if order.sequence < turn.next_sequence:
        if order.task_id in turn.seen:
            raise Known
        raise Refusal(
            "out_of_sequence", f"order {order.sequence} comes after {turn.next_sequence - 1}", task_id=order.task_id
        )
    if order.task_id in turn.seen:
        raise Refusal("repeated_id", "a task of this id was given before", sequence=order.sequence)
    _check_time(order, now)
    return task_of(order)


def _check_time(order: Order, now: datetime) -> None:
    if order.issued_at.tzinfo is None or order.expires_at.tzinfo is None or order.expires_at - order.issued_at > _LIFE:
        reason = f"an order lives at most {MAX_LIFE_SECONDS} s"
        raise Refusal("bad_life", reason, task_id=order.task_id, sequence=order.sequence)
    late, early = order.expires_at + CLOCK_TOLERANCE < now, order.issued_at - CLOCK_TOLERANCE > now
    if late or early:
        word = f"expired at {order.expires_at:%H:%M:%S}" if late else f"is from the future ({order.issued_at:%H:%M:%S})"
        raise Refusal(
            "expired" if late else "not_yet",
            f"the order {word}; it is {now:%H:%M:%S} here",
            task_id=order.task_id,
            sequence=order.sequence,
        )


def task_of(order: Order) -> Task:
    """Its arguments as their type."""
    kind = TASK_TYPES.get((order.type, order.version))
    if kind is None:
        versions = [version for name, version in TASK_TYPES if name == order.type]
        code = "unknown_version" if versions else "unknown_type"
        raise Refusal(
            code,
            f"this agent does not know {order.type[:60]} version {order.version}",
            task_id=order.task_id,
            sequence=order.sequence,
        )
    try:
        return msgspec.json.decode(order.arguments, type=kind)
    except msgspec.MsgspecError as error:
        raise Refusal(
            "bad_arguments",
            f"the arguments of {order.type} are not as they must be: {error}",
            task_id=order.task_id,
            sequence=order.sequence,
        ) from error


class _Claimed(msgspec.Struct):
    task_id: UUID


def claimed_id(envelope: bytes) -> UUID | None:
    """The id an unbelieved envelope claims, to say what was refused. Nothing else is done with it."""
    try:
        payload = msgspec.json.decode(envelope, type=dsse.Envelope).payload
        return msgspec.json.decode(base64.b64decode(payload), type=_Claimed).task_id
    except (msgspec.MsgspecError, ValueError):
        return None
