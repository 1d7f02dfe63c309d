"""The command line's frame: help that loads little (the bench times it), commands that are declared whole,
mistakes that are told."""

import inspect
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gpuaas.processes.cli import app
from gpuaas.processes.cli.declare import GLOBAL, Command, Group
from gpuaas.processes.cli.entry import PROGRAMS
from tests.support.terminal import Terminal

HEAVY = ("msgspec", "httpx", "rich", "typer", "asyncpg", "starlette", "uvicorn", "cryptography", "argparse", "joserfc")
SERVER = ("gpuaas.domains", "gpuaas.infra", "gpuaas.ports", "gpuaas.flows", "gpuaas.processes.settings")


def every_command() -> Iterator[tuple[str, Command]]:
    def below(path: str, here: Group | Command) -> Iterator[tuple[str, Command]]:
        if isinstance(here, Command):
            yield path, here
            return
        for name, child in here.children.items():
            yield from below(f"{path} {name}", child)

    for section in app.SECTIONS.values():
        for name in section:
            yield from below(name, app.top_level(name))


def loaded_after(statement: str) -> list[str]:
    code = f"import sys\ntry:\n    {statement}\nexcept SystemExit:\n    pass\nprint('\\n'.join(sys.modules))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_help_imports_no_server_code_and_nothing_heavy():
    loaded = loaded_after("sys.argv = ['gpuaas', '--help']; from gpuaas.processes.cli.entry import main; main()")
    assert "gpuaas.processes.cli.app" in loaded
    assert [name for name in loaded if name.split(".")[0] in HEAVY or name.startswith(SERVER)] == []


def test_no_command_imports_server_code():
    loads = "; ".join(f"app.top_level({name!r})" for section in app.SECTIONS.values() for name in section)
    loaded = loaded_after(f"from gpuaas.processes.cli import app; {loads}")
    assert [name for name in loaded if name.startswith(SERVER)] == []
    assert "httpx" not in loaded
    assert "rich" not in loaded


async def test_help_names_every_command_and_every_program(terminal: Terminal):
    told = await terminal.good("--help")
    for section in (*app.SECTIONS.values(), PROGRAMS):
        for name in section:
            assert f"  {name} " in told
    assert await terminal.good() == told


@pytest.mark.parametrize(
    ("path", "command"), list(every_command()), ids=lambda one: one if isinstance(one, str) else ""
)
def test_every_command_takes_what_it_declares(path: str, command: Command):
    declared = {argument.destination for argument in command.arguments}
    taken = inspect.signature(command.run).parameters
    named = {name for name, one in taken.items() if one.kind is inspect.Parameter.KEYWORD_ONLY}
    open_ended = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values())
    assert named <= declared if open_ended else named == declared
    assert len(declared) == len(command.arguments)
    assert declared.isdisjoint({option.destination for option in GLOBAL})
    assert command.summary.endswith(".")
    for argument in command.arguments:
        assert argument.help.endswith("."), argument.names


@pytest.mark.parametrize(
    ("path", "command"), list(every_command()), ids=lambda one: one if isinstance(one, str) else ""
)
def test_every_verb_that_destroys_asks_first(path: str, command: Command):
    verb = path.removesuffix("allow-list remove").split()[-1]  # what is taken off that list can be put on again
    if verb in {"delete", "remove", "revoke", "disable", "discard", "unset", "leave", "reset-password"}:
        assert "yes" in {argument.destination for argument in command.arguments}


async def test_every_command_has_help_that_names_its_options(terminal: Terminal):
    for path in ("policy set", "service-accounts keys rotate", "audit export", "login"):
        told = await terminal.good(*path.split(), "--help")
        assert told.startswith(f"Usage: gpuaas {path}")
        assert "--output table|json" in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["polcy"], "Did you mean policy?"),
        (["orgs"], "needs a command"),
        (["orgs", "crate", "x"], "Did you mean create?"),
        (["orgs", "create"], "required: name"),
        (["orgs", "list", "--nonsense"], "--nonsense"),
        (["orgs", "list", "--limit", "0"], "not a positive number"),
        (["--output", "xml", "orgs", "list"], "table or json"),
        (["orgs", "list"], "gpuaas login --url"),
        (["orgs", "list", "--url", "ftp://x"], "not the address of an API"),
        (["orgs", "list", "--url", "https://me:secret@x"], "password"),
        (["orgs", "list", "--context", "nowhere"], "There is no context"),
        (["--debug", "up"], "gpuaas up"),
        (["audit", "list", "--url", "http://127.0.0.1:1", "--token-file", "/nonexistent"], "There is no file"),
    ],
)
async def test_a_wrong_command_line_ends_with_2_and_says_what_is_right(terminal: Terminal, words: list[str], said: str):
    ran = await terminal.run(*words)
    assert ran.code == 2, ran.said
    assert ran.err.startswith("error: ")
    assert said in ran.err
    assert "secret" not in ran.said


async def test_nothing_listening_ends_with_8_and_no_session_with_3(terminal: Terminal):
    away = await terminal.run("login", "--url", "http://127.0.0.1:1")
    assert away.code == 8
    assert "nothing listens there" in away.err
    stranger = await terminal.run("orgs", "list", "--url", "http://127.0.0.1:1")
    assert stranger.code == 3
    assert "gpuaas login --url http://127.0.0.1:1" in stranger.err


async def test_a_credential_does_not_travel_in_the_clear(terminal: Terminal):
    refused = await terminal.run("login", "--url", "http://gpu.example.com")
    assert refused.code == 1
    assert "--plain-http" in refused.err


async def test_a_token_file_others_can_read_is_refused(terminal: Terminal):
    key = terminal.home / "key"
    key.write_text("gpuaas_sk_x")
    key.chmod(0o644)
    refused = await terminal.run("orgs", "list", "--url", "http://127.0.0.1:1", "--token-file", str(key))
    assert refused.code == 1
    assert "chmod 600" in refused.err


async def test_completion_follows_the_declarations(terminal: Terminal):
    async def completed(*words: str) -> list[str]:
        told = await terminal.good("__complete", "--", *words)
        return [line.partition("\t")[0] for line in told.splitlines()]

    assert await completed("pol") == ["policy"]
    assert await completed("service-accounts", "keys", "ro") == ["rotate"]
    assert "identity.invitation_days" in await completed("policy", "get", "identity.")
    assert await completed("--output", "") == ["table", "json"]
    assert "--guardrail" in await completed("policy", "set", "--g")
    assert await completed("--token-file", "") == [":file"]
    assert await completed("nonsense", "") == []
    for shell in ("bash", "zsh", "fish"):
        assert "gpuaas __complete" in await terminal.good("completion", shell)


def test_the_bash_script_completes(tmp_path):
    script = f'''set -e
gpuaas() {{ {sys.executable} -m gpuaas "$@"; }}
eval "$(gpuaas completion bash)"
COMP_WORDS=(gpuaas proj); COMP_CWORD=1; _gpuaas; echo "${{COMPREPLY[@]}}"
COMP_WORDS=(gpuaas orgs ''); COMP_CWORD=2; _gpuaas; echo "${{COMPREPLY[@]}}"'''
    ran = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ) | {"HOME": str(tmp_path)},
    )
    assert ran.stdout.splitlines() == ["projects", "list show create update delete"]
