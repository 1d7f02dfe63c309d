"""What the agent was told to do, is doing, and has yet to tell: one append-only file.

Always holds: a line is on the disk before what it says is acted on or told; a line that was cut short by a crash was
never acted on and is forgotten; a damaged file is refused, not guessed at. It is rewritten once mostly history."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import msgspec

from gpuaas.contracts.tasks.base import Report
from gpuaas.processes.agent.errors import AgentError
from gpuaas.processes.agent.state_directory import StateDirectory, check_private

FILE = "tasks.jsonl"
SEEN = 4096
"""Ids remembered. An older one is out of turn and expired anyway."""
REWRITE_BYTES = 1024 * 1024


class Line(msgspec.Struct, frozen=True, tag_field="is", tag=str.lower):
    """Base of what is written down."""


class Start(Line, frozen=True):
    next_sequence: int
    seen: list[UUID]


class Took(Line, frozen=True):
    """An order was accepted: its number is used, its id never runs again."""

    sequence: int
    task_id: UUID
    payload: str


class Tried(Line, frozen=True):
    task_id: UUID
    attempt: int


class Ended(Line, frozen=True):
    """A task ended, or was refused; its report waits to be accepted. `sequence` 0: its number was not used."""

    task_id: UUID
    report: Report
    sequence: int = 0


class Passed(Line, frozen=True):
    """An order in turn that has nothing to be told about."""

    sequence: int


class Accepted(Line, frozen=True):
    task_id: UUID


AnyLine = Start | Took | Tried | Ended | Passed | Accepted


@dataclass
class Held:
    """A task in the agent's hands."""

    sequence: int
    payload: str
    attempts: int = 0


class TaskLog:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = asyncio.Lock()
        self.next_sequence = 1
        self.seen: dict[UUID, None] = {}
        self.hand: dict[UUID, Held] = {}
        self.results: dict[UUID, Report] = {}
        self._size = 0
        self._file = -1

    @classmethod
    def open(cls, state: StateDirectory) -> "TaskLog":
        log = cls(state.path / FILE)
        for line in _lines(log._path):
            log._apply(line)
        log._rewrite()
        return log

    @classmethod
    def begin(cls, state: StateDirectory) -> None:
        """Forget everything: a node enrolled anew has had no orders."""
        state.write(FILE, _encoded([Start(1, [])]))

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    async def write(self, *lines: AnyLine) -> None:
        """Written down, then true. What the lines say may be acted on when this returns."""
        content = _encoded(lines)
        async with self._turn:
            await asyncio.to_thread(self._append, content)
            for line in lines:
                self._apply(line)
            if self._size > REWRITE_BYTES:
                await asyncio.to_thread(self._rewrite)

    def _append(self, content: bytes) -> None:
        at = 0
        while at < len(content):
            at += os.write(self._file, content[at:])
        os.fdatasync(self._file)
        self._size += len(content)

    def _apply(self, line: AnyLine) -> None:
        match line:
            case Start(next_sequence, seen):
                self.next_sequence = next_sequence
                self.seen = dict.fromkeys(seen)
            case Took(sequence, task_id, payload):
                self._use(sequence)
                self._saw(task_id)
                self.hand[task_id] = Held(sequence, payload)
            case Tried(task_id, attempt):
                self.hand[task_id].attempts = attempt
            case Ended(task_id, report, sequence):
                self._use(sequence)
                self._saw(task_id)
                self.hand.pop(task_id, None)
                self.results[task_id] = report
            case Passed(sequence):
                self._use(sequence)
            case Accepted(task_id):
                self.results.pop(task_id, None)

    def _use(self, sequence: int) -> None:
        self.next_sequence = max(self.next_sequence, sequence + 1)

    def _saw(self, task_id: UUID) -> None:
        self.seen[task_id] = None
        while len(self.seen) > SEEN:
            del self.seen[next(iter(self.seen))]

    def _rewrite(self) -> None:
        """The same truth without its history."""
        lines: list[AnyLine] = [Start(self.next_sequence, list(self.seen))]
        for task_id, held in self.hand.items():
            lines += [Took(held.sequence, task_id, held.payload), Tried(task_id, held.attempts)]
        lines += [Ended(task_id, report) for task_id, report in self.results.items()]
        content = _encoded(lines)
        StateDirectory(self._path.parent).write(self._path.name, content)
        self.close()
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._size = len(content) // 2  # counted half, so that much truth does not mean much rewriting


def _encoded(lines: "list[AnyLine] | tuple[AnyLine, ...]") -> bytes:
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def _lines(path: Path) -> Iterator[AnyLine]:
    try:
        with path.open("rb") as file:
            check_private(path, os.fstat(file.fileno()))
            content = file.read()
    except FileNotFoundError:
        raise AgentError(f"{path} is missing: which orders were followed is not known; enrol this node again") from None
    except OSError as error:
        raise AgentError(f"cannot read {path}: {error.strerror}") from None
    whole, _, _ = content.rpartition(b"\n")
    decoder = msgspec.json.Decoder(AnyLine)
    try:
        decoded = [decoder.decode(line) for line in whole.split(b"\n")] if whole else []
    except msgspec.MsgspecError:
        raise AgentError(f"{path} is damaged: enrol this node again") from None
    if not decoded or not isinstance(decoded[0], Start):
        raise AgentError(f"{path} is damaged: enrol this node again")
    yield from decoded
