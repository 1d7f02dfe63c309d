"""What was asked for on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DEFAULT_DATA = Path(".gpuaas")
DEFAULT_PORT = 8080
DEFAULT_FLEET = 3
LARGEST_FLEET = 1000


@dataclass(frozen=True)
class Options:
    """As given; a port of None means that nobody chose one."""

    data_dir: Path = DEFAULT_DATA
    port: int | None = None
    ready_file: Path | None = None
    demo: bool = True
    seed_only: bool = False
    fleet: int = DEFAULT_FLEET


def parse_options(argv: Sequence[str]) -> Options:
    """Read the arguments; a wrong one ends the program with its usage."""
    parser = argparse.ArgumentParser(
        prog="gpuaas up",
        description="Run the whole product on this machine: PostgreSQL, NATS and every program. "
        "With GPUAAS_DATABASE_URL or GPUAAS_NATS_URL set, those servers are used instead of embedded ones.",
    )
    parser.add_argument("--data-dir", type=Path, default=DEFAULT_DATA, help="everything it keeps (%(default)s)")
    parser.add_argument(
        "--port",
        type=_port,
        help=f"of the API (default: the last one used, first {DEFAULT_PORT}; or the next free one)",
    )
    parser.add_argument("--ready-file", type=Path, help="written as JSON when ready, removed at the end")
    parser.add_argument("--no-demo", action="store_true", help="no demo organisation, no logins, no demo fleet")
    parser.add_argument(
        "--fleet",
        type=_fleet,
        default=DEFAULT_FLEET,
        metavar="N",
        help=f"simulated GPU nodes of the demo, 0 to {LARGEST_FLEET} (%(default)s)",
    )
    parser.add_argument("--seed-only", action="store_true", help=argparse.SUPPRESS)  # `up` runs itself so
    given = parser.parse_args(list(argv))
    return Options(given.data_dir, given.port, given.ready_file, not given.no_demo, given.seed_only, given.fleet)


def _fleet(text: str) -> int:
    if not text.isdecimal() or int(text) > LARGEST_FLEET:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of nodes (0 to {LARGEST_FLEET})")
    return int(text)


def _port(text: str) -> int:
    try:
        port = int(text)
    except ValueError:
        port = 0
    if not 0 < port < 65_536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (1 to 65535)")
    return port
