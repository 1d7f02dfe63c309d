"""A life is a table: every state with its exits, and a deadline for each state that must not last.

Always holds: exits lead to states of the table; a deadline leads to one of the exits; a terminal state has none."""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

S = TypeVar("S", bound=StrEnum)


class Exits(msgspec.Struct, frozen=True):
    to: tuple[StrEnum, ...] = ()
    deadline: timedelta | None = None
    on_deadline: StrEnum | None = None
    rests: str = ""
    """Why a state without a deadline may last: whom it waits for."""


terminal = Exits()


def exits(
    *to: StrEnum, deadline: timedelta | None = None, on_deadline: StrEnum | None = None, rests: str = ""
) -> Exits:
    return Exits(to, deadline, on_deadline, rests)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


class Life(Generic[S]):
    def __init__(self, table: Mapping[S, Exits], *, of: str = "", what: str = "") -> None:
        """`of`: the table of the database whose rows live so; `what` is said of them, if their module does not."""
        self.table = dict(table)
        self.of = of
        self.what = what
        for state, row in self.table.items():
            if not set(row.to) <= set(self.table):
                raise ValueError(f"{state} leads out of the table")
            if (row.deadline is None) != (row.on_deadline is None):
                raise ValueError(f"{state}: a deadline says where it leads")
            if row.on_deadline is not None and row.on_deadline not in row.to:
                raise ValueError(f"{state}: its deadline leads to none of its exits")
            if row.to and row.deadline is None and not row.rests:
                raise ValueError(f"{state} may last for ever and does not say why")

    def sources(self, to: S) -> list[S]:
        """The states from which `to` can be reached, as the statement that moves names them."""
        return [state for state, row in self.table.items() if to in row.to]

    def deadlines(self) -> dict[S, tuple[timedelta, StrEnum]]:
        """The states that must not last: how long they may, and what they become then."""
        return {
            state: (row.deadline, row.on_deadline)
            for state, row in self.table.items()
            if row.deadline is not None and row.on_deadline is not None
        }
