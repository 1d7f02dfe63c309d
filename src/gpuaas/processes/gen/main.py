"""`gpuaas gen`: write every printed promise. `make test` fails when a file differs from what this writes."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import gpuaas
from gpuaas.processes.gen import documents
from gpuaas.processes.gen.lives import states
from gpuaas.processes.gen.schema import schema_sql
from gpuaas.processes.gen.task_types import tasks

PRINTERS: dict[str, Callable[[], str]] = {
    "openapi/api.json": documents.openapi,
    "openapi/agent.json": documents.agents_openapi,
    "asyncapi.json": documents.asyncapi,
    "states.md": states,
    "tasks.json": tasks,
    "errors.md": documents.errors,
    "permissions.md": documents.permissions,
    "policies.md": documents.policies,
    "settings.md": documents.settings,
    "dependencies.txt": documents.dependencies,
    "schema.sql": schema_sql,
}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="gpuaas gen", description="Print contracts/ from the code.")
    parser.add_argument("--to", type=Path, default=Path(gpuaas.__file__).parents[2] / "contracts")
    parser.add_argument("--only", choices=sorted(PRINTERS), help="one file")
    options = parser.parse_args(argv)
    for name, printer in PRINTERS.items():
        if options.only in {None, name}:
            path: Path = options.to / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(printer().rstrip("\n") + "\n")
            sys.stdout.write(f"{name}\n")
    return 0
