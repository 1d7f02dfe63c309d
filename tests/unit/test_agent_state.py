"""What an agent keeps: private or refused, whole or not at all, bounded."""

import os
from pathlib import Path
from uuid import UUID

import pytest

from gpuaas.contracts.http.agent import Sample
from gpuaas.contracts.tasks.base import Outcome, Report
from gpuaas.kit import clock
from gpuaas.kit.ids import new_id
from gpuaas.processes.agent.errors import AgentError
from gpuaas.processes.agent.metrics_journal import BATCH_SAMPLES, MetricsJournal
from gpuaas.processes.agent.state_directory import StateDirectory
from gpuaas.processes.agent.task_log import REWRITE_BYTES, SEEN, Accepted, Ended, TaskLog, Took, Tried


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    made = StateDirectory.make(tmp_path / "state")
    TaskLog.begin(made)
    return made


def report() -> Report:
    return Report(outcome=Outcome.DONE, ended_at=clock.now())


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701])
def test_a_directory_others_can_enter_is_refused_with_one_line(state: StateDirectory, mode: int) -> None:
    state.path.chmod(mode)
    with pytest.raises(AgentError, match="chmod 700"):
        StateDirectory.open(state.path)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_file_others_can_read_is_refused_with_one_line(state: StateDirectory, mode: int) -> None:
    state.write("identity.pem", b"x")
    assert (state.path / "identity.pem").stat().st_mode & 0o777 == 0o600
    (state.path / "identity.pem").chmod(mode)
    with pytest.raises(AgentError, match="chmod 600"):
        state.read("identity.pem")
    (state.path / "tasks.jsonl").chmod(mode)
    with pytest.raises(AgentError, match="chmod 600"):
        TaskLog.open(state)


def test_two_agents_do_not_share_a_directory(state: StateDirectory) -> None:
    state.lock()
    with pytest.raises(AgentError, match="another agent"):
        StateDirectory.open(state.path).lock()
    state.unlock()
    StateDirectory.open(state.path).lock()


async def test_what_was_written_down_is_there_after_a_restart(state: StateDirectory) -> None:
    first, second, third = new_id(), new_id(), new_id()
    tasks = TaskLog.open(state)
    await tasks.write(Took(1, first, "{}"))
    await tasks.write(Took(2, second, "{}"), Tried(second, 2))
    await tasks.write(Ended(first, report()))
    await tasks.write(Ended(third, report(), 3))
    await tasks.write(Accepted(third))

    for again in (TaskLog.open(state), TaskLog.open(state)):
        assert again.next_sequence == 4
        assert set(again.seen) == {first, second, third}
        assert {task_id: held.attempts for task_id, held in again.hand.items()} == {second: 2}
        assert set(again.results) == {first}


async def test_a_line_cut_short_was_never_acted_on(state: StateDirectory) -> None:
    tasks = TaskLog.open(state)
    await tasks.write(Took(1, new_id(), "{}"))
    await tasks.write(Took(2, new_id(), "{}"))
    path = state.path / "tasks.jsonl"
    os.truncate(path, path.stat().st_size - 5)
    assert TaskLog.open(state).next_sequence == 2


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"\x00\x00\n", b'{"is":"took"}\n'])
def test_damaged_memory_is_refused_not_guessed_at(state: StateDirectory, damage: bytes) -> None:
    (state.path / "tasks.jsonl").write_bytes(damage)
    with pytest.raises(AgentError, match="enrol this node again"):
        TaskLog.open(state)
    (state.path / "tasks.jsonl").unlink()
    with pytest.raises(AgentError, match="enrol this node again"):
        TaskLog.open(state)


async def test_memory_is_bounded_and_keeps_what_is_open(state: StateDirectory) -> None:
    tasks, held = TaskLog.open(state), new_id()
    await tasks.write(Took(1, held, "x" * 1000))
    for number in range(2, 120):
        ids = [new_id() for _ in range(100)]
        lines = [line for one in ids for line in (Took(number, one, "x" * 100), Ended(one, report()), Accepted(one))]
        await tasks.write(*lines)
    assert (state.path / "tasks.jsonl").stat().st_size < REWRITE_BYTES + 200_000
    again = TaskLog.open(state)
    assert (again.next_sequence, len(again.seen), set(again.hand)) == (120, SEEN, {held})


def sample() -> Sample:
    return Sample(at=clock.now(), values={f"gpu.{number}.temperature_c": 41.5 for number in range(50)})


def test_samples_survive_a_restart_and_are_shipped_once(tmp_path: Path) -> None:
    journal = MetricsJournal(tmp_path)
    for _ in range(BATCH_SAMPLES + 5):
        journal.add(sample())
    again = MetricsJournal(tmp_path)
    shipped: dict[UUID, int] = {}
    while batch := again.oldest():
        assert again.oldest() == batch
        shipped[batch.batch_id] = len(batch.samples)
        again.shipped(batch.batch_id)
    assert list(shipped.values()) == [BATCH_SAMPLES, 5]
    assert MetricsJournal(tmp_path).oldest() is None


def test_a_batch_that_is_being_sent_gets_no_more_samples(tmp_path: Path) -> None:
    journal = MetricsJournal(tmp_path)
    journal.add(sample())
    first = journal.oldest()
    journal.add(sample())
    assert journal.oldest() == first
    assert journal.batches == 2


def test_the_journal_is_bounded_and_the_oldest_give_way(tmp_path: Path) -> None:
    journal = MetricsJournal(tmp_path, most_bytes=50_000)
    for _ in range(2000):
        journal.add(sample())
    assert journal.bytes <= 50_000 + 2_000 * 60
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == journal.bytes


def test_the_journal_keeps_few_batches(tmp_path: Path) -> None:
    few = MetricsJournal(tmp_path, most_batches=3)
    for _ in range(BATCH_SAMPLES * 6):
        few.add(sample())
    assert few.batches == 3
    assert few.dropped_batches == 3


def test_a_torn_sample_is_left_out(tmp_path: Path) -> None:
    journal = MetricsJournal(tmp_path)
    for _ in range(3):
        journal.add(sample())
    (path,) = tmp_path.iterdir()
    os.truncate(path, path.stat().st_size - 7)
    batch = MetricsJournal(tmp_path).oldest()
    assert batch is not None
    assert len(batch.samples) == 2
