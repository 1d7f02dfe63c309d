"""What the provider remembers: its objects, the answers it gave under idempotency keys, and what it still has to tell.

Always holds: memory never runs ahead of the file; a change, its answer and its events are one line, so none of them is
without the others. Objects are replaced, never changed in place."""

from collections.abc import Collection, Iterator
from secrets import choice
from string import ascii_letters, digits
from typing import Any

import msgspec

from gpuaas.kit import clock
from gpuaas.processes.demo_payments.errors import missing
from gpuaas.processes.demo_payments.journal import Journal, JournalRefused

Object = dict[str, Any]
KEPT_ANSWERS_SECONDS = 24 * 3600
KEPT_EVENTS_SECONDS = 30 * 24 * 3600
COMPACT_BYTES = 4_000_000
_ALPHABET = ascii_letters + digits


class Answered(msgspec.Struct, frozen=True):
    """What was answered under an idempotency key, and to what."""

    key: str
    asked: str
    status: int
    body: Object
    at: int


class Due(msgspec.Struct, frozen=True):
    """Something that happens by itself later: a bank's transfer that arrives, or does not."""

    id: str
    at: int
    good: bool = True


class Change(msgspec.Struct, omit_defaults=True):
    """One line of the journal."""

    put: list[Object] = []
    events: list[Object] = []
    answer: Answered | None = None
    told: list[str] = []
    due: list[Due] = []
    done: list[str] = []
    later_seconds: int = 0


class Book:
    def __init__(self, journal: Journal, *, compact_bytes: int = COMPACT_BYTES) -> None:
        self._journal = journal
        self._objects: dict[str, Object] = {}
        self._by_kind: dict[str, dict[str, None]] = {}
        self._answers: dict[str, Answered] = {}
        self._untold: dict[str, Object] = {}
        self._open: dict[str, None] = {}
        self._due: dict[str, Due] = {}
        self._later_seconds = 0
        try:
            size = journal.read(lambda line: self._apply(msgspec.json.decode(line, type=Change)))
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise JournalRefused(f"{journal.path} is damaged ({error}): start over with an empty folder") from None
        if size > compact_bytes:
            journal.rewrite(msgspec.json.encode(line) for line in self._condensed())

    def now(self) -> int:
        """The provider's clock: the machine's, moved on by whoever tests what time does."""
        return clock.epoch_s() + self._later_seconds

    def write(self, change: Change) -> None:
        """Durable when it returns; OSError, and nothing has changed, when it cannot be."""
        self._journal.append(msgspec.json.encode(change))
        self._apply(change)

    def get(self, kind: str, id: str, *, param: str = "id") -> Object:
        found = self._objects.get(id)
        if found is None or found["object"] != kind:
            raise missing(kind, id, param=param)
        return found

    def find(self, id: str) -> Object | None:
        return self._objects.get(id)

    def newest_first(self, kind: str) -> Iterator[Object]:
        return (self._objects[one] for one in reversed(self._by_kind.get(kind, {})))

    def answered(self, key: str) -> Answered | None:
        found = self._answers.get(key)
        return found if found is not None and found.at > self.now() - KEPT_ANSWERS_SECONDS else None

    def untold(self) -> Collection[Object]:
        """Events whose webhook nobody has taken yet, oldest first."""
        return self._untold.values()

    def open_sessions(self) -> list[Object]:
        return [self._objects[one] for one in self._open]

    def due(self) -> list[Due]:
        return [one for one in self._due.values() if one.at <= self.now()]

    def _apply(self, change: Change) -> None:
        for one in (*change.put, *change.events):
            self._objects[one["id"]] = one
            self._by_kind.setdefault(one["object"], {})[one["id"]] = None
            if one["object"] == "checkout.session":
                _ = self._open.setdefault(one["id"]) if one["status"] == "open" else self._open.pop(one["id"], None)
        self._untold.update((event["id"], event) for event in change.events if event["pending_webhooks"])
        for told in change.told:
            if event := self._untold.pop(told, None):
                self._objects[told] = {**event, "pending_webhooks": 0}
        if change.answer is not None:
            self._forget_answers()
            self._answers[change.answer.key] = change.answer
        self._due.update((one.id, one) for one in change.due)
        for done in change.done:
            self._due.pop(done, None)
        self._later_seconds += change.later_seconds

    def _forget_answers(self) -> None:
        """The oldest, once they are too old to be given again; dictionaries keep the order things came in."""
        while self._answers:
            key, answer = next(iter(self._answers.items()))
            if answer.at > self.now() - KEPT_ANSWERS_SECONDS:
                return
            del self._answers[key]

    def _condensed(self) -> Iterator[Change]:
        """The same without what nobody asks for any more: old answers, and old events that were told."""
        before = self.now() - KEPT_EVENTS_SECONDS
        for kind in list(self._by_kind):
            for one in [self._objects[each] for each in self._by_kind[kind]]:
                if kind != "event":
                    yield Change(put=[one])
                elif one["id"] in self._untold:
                    yield Change(events=[one])
                elif one["created"] > before:
                    yield Change(put=[one])
                else:
                    del self._objects[one["id"]], self._by_kind[kind][one["id"]]
        for key, answer in list(self._answers.items()):
            if answer.at > self.now() - KEPT_ANSWERS_SECONDS:
                yield Change(answer=answer)
            else:
                del self._answers[key]
        yield Change(due=list(self._due.values()), later_seconds=self._later_seconds)


def new_id(prefix: str, length: int = 24) -> str:
    return prefix + "".join(choice(_ALPHABET) for _ in range(length))
