"""Every `gpuaas …` a document names exists: the command tree itself is asked."""

import re
import shlex
from collections.abc import Iterator

import pytest

from gpuaas.processes.cli.app import find
from gpuaas.processes.cli.entry import PROGRAMS
from gpuaas.processes.cli.failures import UsageError
from tests.tidy.repository import code_lines, markdown
from tests.tidy.rule import Source, read_repository

NAMED = re.compile(r"(?:^|[`\s/])gpuaas ([^`#|>]+)")


def named_commands(source: Source) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(code_lines(source), start=1):
        for command in NAMED.findall(line):
            if command[0].islower() or command[0] == "-":
                yield number, command.strip()


def problem(command: str) -> str:
    """Why there is no such command, or nothing."""
    words = shlex.split(command)
    if words[0] in PROGRAMS:
        return ""
    try:
        _, found, rest = find(words, {})
    except UsageError as error:
        return str(error)
    return "" if found is not None or "--help" in rest else "names no command"


def test_every_command_in_the_documents_exists() -> None:
    sources = [source for path, source in read_repository().sources.items() if markdown(path)]
    named = [(source.path, number, command) for source in sources for number, command in named_commands(source)]
    broken = [
        f"{path}:{number}: gpuaas {command}: {problem(command)}" for path, number, command in named if problem(command)
    ]
    assert len(named) > 10
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("command", ["conjure", "projects conjure", "ops dead-letters conjure 1"])
def test_a_command_that_does_not_exist_is_found(command: str) -> None:
    assert problem(command)


@pytest.mark.parametrize("command", ["up --port 9", "--token-file x projects list", "ops dead-letters list", "login"])
def test_a_command_that_exists_is_not(command: str) -> None:
    assert not problem(command)
