"""Which envelopes an agent follows: those of a trusted key, unchanged, for it, in turn, new, known and in time."""

import random
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpuaas.contracts.tasks.base import PAYLOAD_TYPE, Order, Task
from gpuaas.contracts.tasks.catalogue import Drain, HealthCheck, Inspect, UserProvision, UserRevoke
from gpuaas.kit import clock, dsse
from gpuaas.kit.ids import new_id
from gpuaas.processes.agent.orders import Known, Refusal, Turn, accept, read_order

NODE, KEY = new_id(), Ed25519PrivateKey.generate()
KEYS = {"k1": KEY.public_key()}
NOW = clock.now()
TASKS: list[Task] = [
    Inspect(),
    HealthCheck(serials=["a"], load=True),
    Drain(),
    UserRevoke(login="gada"),
    UserProvision(login="gada", ssh_keys=[], gpus=["a", "b"]),
]


def order(task: Task = TASKS[0], **changes: Any) -> Order:
    made: dict[str, Any] = {
        "task_id": new_id(),
        "type": task.TYPE,
        "version": 1,
        "node_id": NODE,
        "subject_id": None,
        "sequence": 5,
        "issued_at": NOW,
        "expires_at": NOW + timedelta(minutes=10),
        "deadline_seconds": 60,
        "correlation_id": "c",
        "traceparent": "",
        "arguments": msgspec.Raw(msgspec.json.encode(task)),
    }
    return Order(**(made | changes))


def seal(wanted: Order, key_id: str = "k1", key: Ed25519PrivateKey = KEY) -> bytes:
    return dsse.seal(PAYLOAD_TYPE, msgspec.json.encode(wanted), key_id, key)


def follow(envelope: bytes, *, next_sequence: int = 5, seen: tuple[UUID, ...] = ()) -> Task:
    found, _ = read_order(envelope, KEYS)
    return accept(found, Turn(NODE, next_sequence, frozenset(seen)), NOW)


def test_an_order_of_each_kind_becomes_its_task() -> None:
    assert [follow(seal(order(task))) for task in TASKS] == TASKS


@pytest.mark.slow
def test_no_byte_of_two_hundred_envelopes_can_be_changed() -> None:
    accepted, tried = 0, 0
    dice = random.Random(7)
    for number in range(200):
        envelope = seal(order(TASKS[number % len(TASKS)]))
        assert follow(envelope) == TASKS[number % len(TASKS)]
        for place in range(len(envelope)):
            changed = bytearray(envelope)
            changed[place] ^= dice.randint(1, 255)
            tried += 1
            try:
                follow(bytes(changed))
                accepted += 1
            except Refusal:
                pass
    assert tried > 100_000
    assert accepted == 0


@pytest.mark.parametrize("cut", [1, 10, 100, 500])
def test_a_shortened_or_lengthened_envelope_is_refused(cut: int) -> None:
    envelope = seal(order())
    for changed in (envelope[:-cut], envelope[cut:], envelope + b" " * cut, b" " * cut + envelope):
        with pytest.raises(Refusal):
            follow(changed)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"node_id": new_id()}, "other_node"),
        ({"type": "node.explode"}, "unknown_type"),
        ({"version": 2}, "unknown_version"),
        ({"sequence": 4}, "out_of_sequence"),
        ({"issued_at": NOW - timedelta(hours=1), "expires_at": NOW - timedelta(minutes=50)}, "expired"),
        ({"issued_at": NOW + timedelta(hours=1), "expires_at": NOW + timedelta(minutes=70)}, "not_yet"),
        ({"expires_at": NOW + timedelta(days=1)}, "bad_life"),
        ({"issued_at": NOW.replace(tzinfo=None)}, "bad_life"),
        ({"arguments": msgspec.Raw(b'{"unheard":1}')}, "bad_arguments"),
        ({"arguments": msgspec.Raw(b"[]")}, "bad_arguments"),
    ],
)
def test_a_signed_order_that_is_not_to_be_followed_is_refused_with_its_reason(
    changes: dict[str, Any], code: str
) -> None:
    with pytest.raises(Refusal) as refused:
        follow(seal(order(**changes)))
    assert refused.value.code == code


def test_an_unknown_key_is_refused_whatever_it_is_called() -> None:
    stranger = Ed25519PrivateKey.generate()
    for key_id in ("k1", "k2", ""):
        with pytest.raises(Refusal) as refused:
            follow(seal(order(), key_id, stranger))
        assert refused.value.code == "bad_signature"


def test_the_same_bytes_under_another_type_are_refused() -> None:
    with pytest.raises(Refusal):
        follow(dsse.seal("application/vnd.gpuaas.task-key+json", msgspec.json.encode(order()), "k1", KEY))


def test_an_order_that_comes_again_is_known_and_one_with_a_used_id_is_refused() -> None:
    first = order()
    with pytest.raises(Known):
        follow(seal(first), next_sequence=6, seen=(first.task_id,))
    with pytest.raises(Refusal) as refused:
        follow(seal(order(task_id=first.task_id, sequence=6)), next_sequence=6, seen=(first.task_id,))
    assert (refused.value.code, refused.value.sequence, refused.value.task_id) == ("repeated_id", 6, None)


@pytest.mark.parametrize("minutes", [-4, 4])
def test_a_clock_that_is_a_few_minutes_wrong_is_tolerated(minutes: int) -> None:
    issued = NOW - timedelta(minutes=10 + minutes) if minutes > 0 else NOW - timedelta(minutes=minutes)
    assert follow(seal(order(issued_at=issued, expires_at=issued + timedelta(minutes=10)))) == Inspect()
