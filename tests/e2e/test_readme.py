"""The README is true: what it tells a newcomer to type in the first five minutes is typed here, word by word."""

import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.processes.up.conftest import Up, end
from tests.support.terminal import Person, Terminal
from tests.tidy.rule import ROOT

TOLD_URL = "http://127.0.0.1:8080"
EXPECTED = {
    "whoami": "owner@demo.example",
    "allocations create": "ssh ",
    "allocations explain": "first has 1 H200 GPU",
    "allocations timeline": "node.health",
    "allocations release": "Certificate of sanitisation: ",
    "certificates verify": "Valid: ",
    "billing balance": "set aside",
    "billing usage": "h200-8",
    "billing top-up": "/pay/cs_test_",
    "billing statement": "to try it out",
    "billing proof": "price version",
    "projects create research": "research",
    "--token-file": "research",
    "policy explain": "security review",
    "audit list": "project.create",
    "ops verify": "invariant",
    "ops books verify": "provider payments",
    "ops health": "database",
}


def told_commands() -> list[str]:
    """The commands of the README's walk, in order."""
    section = (ROOT / "README.md").read_text().split("## The first five minutes")[1]
    (block, *_) = re.findall(r"```sh\n(.*?)```", section, flags=re.DOTALL)
    return [line for line in block.splitlines() if line.startswith("gpuaas ")]


@pytest.fixture
async def newcomer(tmp_path: Path) -> AsyncIterator[tuple[Terminal, Up, list[Person]]]:
    """Somebody with an empty home, in front of `make up`."""
    up = Up(tmp_path)
    try:
        ready = up.start()
        people = {login["role"]: Person(login["email"], login["password"]) for login in ready["logins"]}
        yield Terminal(tmp_path), up, [people["tenant_owner"], people["platform_admin"]]
    finally:
        end(up)


@pytest.mark.slow
async def test_the_first_five_minutes_are_as_the_readme_tells(
    newcomer: tuple[Terminal, Up, list[Person]], tmp_path: Path
) -> None:
    terminal, up, people = newcomer
    key_file, said = str(tmp_path / "ci.key"), {}
    for command in told_commands():
        local = command.replace(TOLD_URL, f"http://127.0.0.1:{up.port}")
        for name in ("ci.key", "first.json"):
            local = local.replace(name, str(tmp_path / name))
        words = shlex.split(local)[1:]
        if words[0] == "login":
            logged_in = await terminal.log_in(people.pop(0), *words[1:])
            assert logged_in.code == 0, logged_in.said
        else:
            said[command] = await terminal.good(*words)
    for part, expected in EXPECTED.items():
        (answer,) = [text for command, text in said.items() if part in command]
        assert expected in answer, f"{part}: {answer}"
    refused = await terminal.run(
        "--token-file", key_file, "--context", f"127.0.0.1-{up.port}", "projects", "create", "more"
    )
    assert refused.code != 0
    assert "project_create" in refused.err
