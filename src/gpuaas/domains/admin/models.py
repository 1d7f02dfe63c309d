"""Rows about the installation itself."""

import msgspec


class Broken(msgspec.Struct, frozen=True):
    """A row of an invariant's view: it should not be."""

    subject: str
    problem: str


class Invariant(msgspec.Struct, frozen=True):
    name: str
    statement: str
    count: int
    first: list[Broken]


class Depths(msgspec.Struct, frozen=True):
    """What waits, and for how long."""

    migration: str
    outbox_unpublished: int
    outbox_oldest_seconds: float
    dead_letters_open: int
    dead_letters_replaying: int
