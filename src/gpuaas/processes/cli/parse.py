"""From words to the arguments of a command, by argparse; mistakes become a `UsageError`."""

import argparse
from typing import Any, NoReturn

from gpuaas.processes.cli.declare import GLOBAL, Argument, Command
from gpuaas.processes.cli.failures import UsageError


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message[:1].upper() + message[1:] + ".", f"See: {self.prog} --help")


def parse(path: str, command: Command, words: list[str], given: dict[str, Any]) -> dict[str, Any]:
    """What was given before the command holds unless it is said again after it."""
    parser = _Parser(prog=path, add_help=False, allow_abbrev=False)
    for argument in (*command.arguments, *GLOBAL):
        _add(parser, argument)
    found = vars(parser.parse_args(words))
    return {name: given.get(name, value) if value in (None, False) else value for name, value in found.items()}


def _add(parser: argparse.ArgumentParser, argument: Argument) -> None:
    how: dict[str, Any] = {"default": argument.default}
    if argument.flag:
        how = {"action": "store_true"}
    else:
        how["type"] = argument.kind
        how["choices"] = argument.choices or None
        how["metavar"] = argument.metavar
    if argument.is_option:
        how["dest"] = argument.destination
        how["required"] = argument.required
        if argument.many:
            how |= {"action": "append", "default": []}
    elif argument.many:
        how["nargs"] = "*" if argument.optional else "+"
    elif argument.optional:
        how["nargs"] = "?"
    parser.add_argument(*argument.names, **how)
