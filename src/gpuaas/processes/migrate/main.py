"""`gpuaas migrate`: to the newest migration, to a given one, or back down. Needs the owner's URL and nothing else.

Exit 0 when the database is where it was asked to be, 1 with one clear line when not, 2 for a wrong command line."""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import asyncpg

from gpuaas.infra.postgres import migrate
from gpuaas.processes.settings import PREFIX, SettingsError, read_variable

_OWNER, _APP = PREFIX + "DATABASE_OWNER_URL", PREFIX + "DATABASE_URL"


def main(argv: Sequence[str]) -> int:
    options = _options(argv)
    try:
        return _run(options, os.environ)
    except SettingsError as error:
        return _fail(str(error))
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError) as error:
        return _fail(f"the database of {_OWNER}: {str(error) or type(error).__name__}")


def _run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    owner = read_variable(environ, _OWNER)
    if not owner:
        raise SettingsError(f"missing {_OWNER}: PostgreSQL as the owner's role")
    if urlsplit(owner).scheme not in {"postgresql", "postgres"}:
        raise SettingsError(f"{_OWNER} must start with postgresql://")
    app_role = urlsplit(read_variable(environ, _APP) or "").username or "gpuaas_app"
    known = migrate.numbers()
    wanted = options.down if options.down is not None else options.to or known[-1]
    if wanted != 0 and wanted not in known:
        raise SettingsError(f"there is no migration {wanted}; they go from {known[0]} to {known[-1]}")
    before = int(asyncio.run(migrate.current(owner)) or 0)
    if options.status:
        print(f"at {_name(before)}; newest is {_name(known[-1])}")  # noqa: T201 # what was asked for
        return 0 if before == known[-1] else 1
    if options.down is None and wanted < before:
        return _fail(f"the database is at {_name(before)}: going back loses data, say --down {wanted} if that is meant")
    if options.down is not None:
        if wanted > before:
            return _fail(f"the database is at {_name(before)}, below {_name(wanted)}: use --to {wanted}")
        if wanted < before and not _sure(
            f"Going from {_name(before)} down to {_name(wanted)} loses data.", options.yes
        ):
            return 1
        if wanted < before:
            migrate.downgrade(owner, app_role=app_role, to=_name(wanted) if wanted else "base")
    elif wanted > before:
        migrate.upgrade(owner, app_role=app_role, to=_name(wanted))
    moved = f"{_name(before)} → {_name(wanted)}" if wanted != before else f"already at {_name(before)}"
    print(moved)  # noqa: T201 # what was asked for
    return 0


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpuaas migrate",
        allow_abbrev=False,
        description=f"Bring the database of {_OWNER} to the newest migration.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--to", type=int, metavar="N", help="forward to migration N")
    which.add_argument("--down", type=int, metavar="N", help="back to migration N; 0 takes everything away")
    which.add_argument("--status", action="store_true", help="only say where it is; exit 1 if not at the newest")
    parser.add_argument("--yes", action="store_true", help="do not ask before going back")
    return parser.parse_args(list(argv))


def _name(number: int) -> str:
    return f"{number:04d}"


def _sure(sentence: str, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        _fail(f"{sentence} Nobody is here to answer: say --yes if that is meant")
        return False
    sys.stderr.write(f"{sentence} Go on? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _fail(line: str) -> int:
    print(f"gpuaas migrate: {line}", file=sys.stderr)  # noqa: T201 # one clear line
    return 1
