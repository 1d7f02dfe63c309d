"""The agent's own count of usable seconds: it grows only for what it saw, and nobody can change what it signed."""

from pathlib import Path
from uuid import UUID

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gpuaas.kit import signed_usage
from gpuaas.kit.ids import new_id
from gpuaas.processes.agent.conversation import usable_serials
from gpuaas.processes.agent.state_directory import StateDirectory
from gpuaas.processes.agent.usage_counter import FILE, LONGEST_GAP, UsageCounter
from tests.support.certificates import Forger

ONE, OTHER = UUID(int=1), UUID(int=2)
LEASES = {ONE: ["S1", "S2"], OTHER: ["S3"]}
ALL = {"S1", "S2", "S3"}


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def counter(path: Path, time: Time) -> UsageCounter:
    return UsageCounter(StateDirectory.make(path), time)


def test_it_counts_while_every_gpu_of_a_lease_answers(tmp_path: Path) -> None:
    time = Time()
    counted = counter(tmp_path / "agent", time)
    counted.look(LEASES, ALL)
    assert counted.all == {ONE: 0, OTHER: 0}, "nothing is known of the time before the first look"
    for usable in (ALL, ALL, {"S1", "S3"}, {"S1", "S3"}):
        time.now += 15
        counted.look(LEASES, usable)
    assert counted.all == {ONE: 30, OTHER: 60}
    time.now += LONGEST_GAP + 1
    counted.look(LEASES, ALL)
    assert counted.all == {ONE: 30, OTHER: 60}, "time in which it did not look is not counted"
    time.now -= 1_000
    counted.look(LEASES, ALL)
    assert counted.all == {ONE: 30, OTHER: 60}, "it never goes back"


def test_it_survives_a_restart_and_forgets_what_is_not_leased(tmp_path: Path) -> None:
    time = Time()
    first = counter(tmp_path / "agent", time)
    first.look(LEASES, ALL)
    time.now += 20
    first.look(LEASES, ALL)
    again = counter(tmp_path / "agent", time)
    assert again.all == {ONE: 20, OTHER: 20}
    time.now += 20
    again.look({ONE: LEASES[ONE]}, ALL)
    assert again.all == {ONE: 20}, "its first look only begins to count"
    (tmp_path / "agent" / FILE).write_bytes(b"{")
    assert counter(tmp_path / "agent", time).all == {}, "damaged, it counts anew: less, never more"


def test_what_answers_is_read_from_what_was_measured() -> None:
    values = {"gpu.S1.utilisation_percent": 3.0, "gpu.S2.temperature": 40.0, "cpu.utilisation_percent": 1.0}
    assert usable_serials(values) == {"S1"}


def test_only_the_nodes_own_key_signs_its_count_and_no_second_can_change() -> None:
    node_id, held = new_id(), Forger().leaf()
    pem = held.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    own, stranger = held.der, Forger().leaf().der
    said = signed_usage.words(node_id, {ONE: 30, OTHER: 60})
    signature = signed_usage.sign(pem, said)
    assert signed_usage.signed_by(own, signed_usage.words(node_id, {OTHER: 60, ONE: 30}), signature)
    assert not signed_usage.signed_by(stranger, said, signature)
    assert not signed_usage.signed_by(own, signed_usage.words(node_id, {ONE: 31, OTHER: 60}), signature)
    assert not signed_usage.signed_by(own, signed_usage.words(new_id(), {ONE: 30, OTHER: 60}), signature)
    for forged in ("", "AAAA", "not base64", signature[:-4]):
        assert not signed_usage.signed_by(own, said, forged)
