"""What a command prints. Tables for people: never cut, without colour when nobody is looking, and nothing from outside
acts on the terminal. JSON for programs: the API's own bytes."""

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, TextIO, TypeVar

import msgspec

from gpuaas.kit import clock
from gpuaas.processes.cli.text import clean, clean_json

T = TypeVar("T")
Column = tuple[str, Callable[[T], Any]]
_PLAIN_WIDTH = 100_000
_GAP = 2
_FOLDABLE = 40
"""Longer than an id: text, which may be folded to `_FOLDED`."""
_FOLDED = 24
_ALWAYS = 2
"""So many columns are shown however narrow the terminal is."""
_STYLES = {
    "active": "green",
    "disabled": "red",
    "revoked": "red",
    "expired": "yellow",
    "ok": "green",
    "ready": "green",
    "failed": "red",
    "online": "green",
    "unknown": "yellow",
    "lost": "red",
    "healthy": "green",
    "unhealthy": "red",
    "quarantined": "red",
    "done": "green",
}


class Output:
    def __init__(self, *, json: bool, colour: bool, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.json = json
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self.people = self.out.isatty()
        self._colour = colour and self.people

    def raw(self, body: bytes) -> None:
        """JSON: as it came for a program, indented for a person who asked to see it."""
        if self.people:
            self.out.write(clean_json(msgspec.json.format(body).decode()) + "\n")
        else:
            self.out.write(body.decode() + "\n")

    def table(self, columns: Sequence[Column[T]], rows: Iterable[T], *, empty: str) -> None:
        cells = [[show(value(row)) for _, value in columns] for row in rows]
        if not cells:
            self.note(empty)
            return
        from rich.table import Table
        from rich.text import Text

        titles = [title for title, _ in columns]
        shown, width = self._fitting(titles, cells)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold" if self._colour else "")
        for position in range(shown):
            wide = max(len(line[position]) for line in cells) > _FOLDABLE
            table.add_column(Text(titles[position].upper()), overflow="fold", no_wrap=not (self.people and wide))
        for line in cells:
            table.add_row(*(Text(cell, style=_STYLES.get(cell, "") if self._colour else "") for cell in line[:shown]))
        self._print(table, width)
        if shown < len(titles):
            self.note(f"Left out for lack of room: {', '.join(titles[shown:])}. --output json shows all.")

    def _fitting(self, titles: list[str], cells: list[list[str]]) -> tuple[int, int]:
        """How many columns fit, from the left, and how wide the table may be. Half an id is no id: only text folds."""
        if not self.people:
            return len(titles), _PLAIN_WIDTH
        from rich.cells import cell_len

        room, used = shutil.get_terminal_size().columns, 0
        for position, title in enumerate(titles):
            widest = max(cell_len(text) for text in (title, *(line[position] for line in cells)))
            wanted = used + (widest if widest <= _FOLDABLE else _FOLDED)
            if wanted > room and position >= _ALWAYS:
                return position, max(room, used)
            used = wanted + _GAP
        return len(titles), max(room, used)

    def fields(self, pairs: Sequence[tuple[str, Any]]) -> None:
        """One thing: a name and a value per line."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold", no_wrap=not self.people)
        for name, value in pairs:
            table.add_row(Text(name, style="dim" if self._colour else ""), Text(show(value)))
        self._print(table, shutil.get_terminal_size().columns if self.people else _PLAIN_WIDTH)

    def line(self, text: str) -> None:
        """The answer itself, in a sentence or a word."""
        print(clean(text), file=self.out)

    def note(self, text: str) -> None:
        """Beside the answer: for people, so not where programs read."""
        print(clean(text), file=self.err)

    def _print(self, table: Any, width: int) -> None:
        from rich.console import Console

        console = Console(
            file=self.out,
            no_color=not self._colour,
            force_terminal=self._colour,
            highlight=False,
            markup=False,
            emoji=False,
            width=width,
        )
        with console.capture() as capture:
            console.print(table)
        # Cells are padded to the width of their column; nobody wants that at the end of a line.
        self.out.write("".join(line.rstrip() + "\n" for line in capture.get().splitlines()))


def show(value: Any) -> str:
    """A value as a person reads it."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(show(item) for item in value) or "-"
    return clean(str(value))


def key_state(*, revoked_at: datetime | None, expires_at: datetime | None) -> str:
    """Whether a key, token or invitation can still be used."""
    if revoked_at is not None:
        return "revoked"
    return "expired" if expires_at is not None and expires_at <= clock.now() else "active"
