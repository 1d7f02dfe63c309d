"""Every life as a table and a graph: what each state may become, how long it may last, and what happens then."""

from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import gpuaas.domains
from gpuaas.kit.life import Exits, Life
from gpuaas.processes.gen.documents import PRINTED

_INTRODUCTION = """# States

A state lasts no longer than its deadline, and then becomes what its row says; one without a deadline says whom it waits
for. One statement writes the state of a row, and names the states it may come from: the database decides every race."""
_UNITS = ((timedelta(days=1), "day"), (timedelta(hours=1), "hour"), (timedelta(minutes=1), "minute"))


def lives() -> list[tuple[str, Life[Any]]]:
    """All there are, in the order of their domains, each with what is said of it."""
    found: list[tuple[str, Life[Any]]] = []
    root = Path(gpuaas.domains.__file__).parent
    for path in sorted(root.rglob("states.py")):
        place = path.relative_to(root).with_suffix("").parts
        module = import_module(".".join(("gpuaas.domains", *place)))
        said = " ".join((module.__doc__ or "").split())
        found += [(life.what or said, life) for life in vars(module).values() if isinstance(life, Life)]
    return found


def states() -> str:
    return "\n\n".join([f"{PRINTED}{_INTRODUCTION}", *(_life(what, life) for what, life in lives())])


def _life(what: str, life: Life[Any]) -> str:
    ends = [state for state, row in life.table.items() if not row.to]
    return "\n".join(
        [
            f"## {life.of}",
            "",
            what,
            "",
            "| state | may become | at most | then | rests, because or until |",
            "|---|---|---|---|---|",
            *(f"| `{state}` | {_row(row)} |" for state, row in life.table.items()),
            "",
            "```mermaid",
            "stateDiagram-v2",
            f"  [*] --> {next(iter(life.table))}",
            *(f"  {state} --> {to}{_label(row, to)}" for state, row in life.table.items() for to in row.to),
            *(f"  {state} --> [*]" for state in ends),
            "```",
        ]
    )


def _row(row: Exits) -> str:
    if not row.to:
        return "nothing: it has ended | | |"
    to = ", ".join(f"`{to}`" for to in row.to)
    if row.deadline is None:
        return f"{to} | | | {row.rests}"
    return f"{to} | {_long(row.deadline)} | `{row.on_deadline}` | {row.rests}"


def _label(row: Exits, to: str) -> str:
    return f": or after {_long(row.deadline)}" if row.deadline is not None and to == row.on_deadline else ""


def _long(time: timedelta) -> str:
    """In the largest unit that fits whole."""
    for unit, name in _UNITS:
        if time % unit == timedelta():
            count = time // unit
            return f"{count} {name}{'s' * (count != 1)}"
    return f"{time.total_seconds():g} s"
