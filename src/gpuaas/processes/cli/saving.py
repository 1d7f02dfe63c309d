"""Exports, to standard output or to a file that is there whole or not at all."""

import sys
from pathlib import Path

from gpuaas.client.call import Call
from gpuaas.processes.cli.declare import Argument
from gpuaas.processes.cli.failures import Stop
from gpuaas.processes.cli.run import Run

TO_FILE = Argument("--to-file", help="Write to this file. Default: standard output.", completes="file")


def save(run: Run, call: Call[bytes], to_file: str | None) -> None:
    if to_file is None:
        for chunk in run.api.stream(call):
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        return
    path, size = Path(to_file), 0
    partial = path.with_name(path.name + ".part")
    try:
        with partial.open("wb") as file:
            for chunk in run.api.stream(call):
                size += file.write(chunk)
        partial.replace(path)
    except OSError as error:
        raise Stop(f"Cannot write {path}: {error.strerror}.") from error
    finally:
        partial.unlink(missing_ok=True)
    run.out.note(f"{size} bytes are in {path}.")
