"""`python -m bench [--only name] [--json]`: runs the groups, prints every figure, fails if one is missed."""

import argparse
import sys
from collections.abc import Callable

from bench import accrual, agents, api, flows, ledger, placement, relay, start
from bench.figures import Figure, table

GROUPS: dict[str, Callable[[str | None], list[Figure]]] = {
    "accrual": accrual.run,
    "agents": agents.run,
    "api": api.run,
    "flows": flows.run,
    "ledger": ledger.run,
    "placement": placement.run,
    "relay": relay.run,
    "start": start.run,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("--only", help="a group, or group.figure")
    parser.add_argument("--json", action="store_true", help="one JSON line per figure")
    options = parser.parse_args()
    group, _, figure = (options.only or "").partition(".")
    if group and group not in GROUPS:
        parser.error(f"no group {group}: there are {', '.join(GROUPS)}")
    figures = [f for name, run in GROUPS.items() if group in {"", name} for f in run(figure or None)]
    if options.json:
        sys.stdout.write("".join(f.as_json() + "\n" for f in figures))
    else:
        sys.stdout.write(table(figures) + "\n")
    return 0 if figures and all(f.ok for f in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
