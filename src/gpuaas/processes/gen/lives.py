"""Every life as a table and a graph: what each state may become, how long it may last, and what happens then."""

from importlib import import_module
from pathlib import Path

import gpuaas.domains
from gpuaas.kit.life import Exits, Life
from gpuaas.processes.gen.documents import PRINTED


def states() -> str:
    parts = [f"{PRINTED}# States\n\nA state lasts no longer than its deadline; one without says whom it waits for."]
    root = Path(gpuaas.domains.__file__).parent
    for path in sorted(root.rglob("states.py")):
        place = path.relative_to(root).with_suffix("").parts
        module = import_module(".".join(("gpuaas.domains", *place)))
        life = getattr(module, "LIFE", None)
        if isinstance(life, Life):
            parts.append(_life(" ".join(place[:-1]), (module.__doc__ or "").strip(), life))
    return "\n\n".join(parts)


def _life(name: str, what: str, life: Life) -> str:  # type: ignore[type-arg] # of any states
    rows = [f"| `{state}` | {_exits(row)} | {_lasts(row)} |" for state, row in life.table.items()]
    edges = [f"  {state} --> {to}" for state, row in life.table.items() for to in row.to]
    return "\n".join(
        [
            f"## {name}",
            "",
            what,
            "",
            "| state | may become | lasts |",
            "|---|---|---|",
            *rows,
            "",
            "```mermaid",
            "stateDiagram-v2",
            *edges,
            "```",
        ]
    )


def _exits(row: Exits) -> str:
    return ", ".join(f"`{to}`" for to in row.to) or "terminal"


def _lasts(row: Exits) -> str:
    if row.deadline is not None:
        return f"at most {row.deadline}, then `{row.on_deadline}`"
    return row.rests or "for ever"
