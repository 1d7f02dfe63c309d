"""What is said in a notification: a title, sentences, and facts beneath them. Whatever goes in is made plain here, so
nothing that is told can carry a control character further."""

from datetime import UTC, datetime
from uuid import UUID

import msgspec

from gpuaas.domains.notifications.plain import plain
from gpuaas.kit.money import format_micros

TITLE_MAX = 200
SENTENCE_MAX = 1_000
BODY_MAX = 4_000


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the sentences may speak of, beside the event."""

    org: str
    project: str = ""
    allocation: str = ""
    gpus: int = 0
    released_by: str = ""
    asked_by_id: UUID | None = None


class Words(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    sentences: list[str]
    facts: list[tuple[str, str]] = []

    @property
    def body(self) -> str:
        lines = [*self.sentences, *(f"{name}: {value}" for name, value in self.facts)]
        return "\n".join(lines)[:BODY_MAX]


def words(title: str, *sentences: str, **facts: object) -> Words:
    """Facts are shown under their names, in order; those that are empty are left out."""
    return Words(
        title=plain(title, TITLE_MAX),
        sentences=[plain(sentence, SENTENCE_MAX) for sentence in sentences if sentence],
        facts=[(name.replace("_", " ").capitalize(), plain(value)) for name, value in facts.items() if value != ""],
    )


def at(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def money(micros: int, currency: str) -> str:
    return format_micros(micros, plain(currency, 10))


def span(seconds: int) -> str:
    """Roughly, for people: 90 minutes, 3 hours, 2 days."""
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        count = seconds // size
        if count >= 2 or (count == 1 and size == 60):  # one hour is better told as 60 minutes
            return f"{count} {name}s" if count != 1 else f"{count} {name}"
    return "less than a minute"
