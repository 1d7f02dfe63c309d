"""The layers are held: for each contract, one import that breaks it is refused by it and by no other name.

The tree is the real one with every file emptied, so a contract that no longer fits the folders fails here too.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.tidy.rule import ROOT

ALLOWED_TODAY = re.compile(r"^ignore_imports = \[.*?^\]\n", flags=re.MULTILINE | re.DOTALL)
CONTRACTS = {
    contract["id"]: contract["name"]
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}
BREAKS = {
    "layers": ("kit/clock.py", "gpuaas.contracts"),
    "processes": ("processes/relay/main.py", "gpuaas.processes.api"),
    "domains": ("domains/outbox/service.py", "gpuaas.domains.identity.projects.service"),
    "inside-a-domain": ("domains/identity/projects/store.py", "gpuaas.domains.identity.projects.service"),
    "chosen-by-main": ("domains/identity/projects/service.py", "gpuaas.infra.nats"),
    "agent-outside": ("processes/agent/main.py", "gpuaas.infra.postgres"),
    "programs-outside": ("processes/cli/main.py", "gpuaas.infra.postgres"),
}


@pytest.fixture
def emptied_tree(tmp_path: Path) -> Path:
    for path in (ROOT / "src/gpuaas").rglob("*.py"):
        copy = tmp_path / path.relative_to(ROOT / "src")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.touch()
    settings = (ROOT / "pyproject.toml").read_text()
    (tmp_path / "pyproject.toml").write_text(ALLOWED_TODAY.sub("", settings))
    return tmp_path


def broken_contracts(folder: Path) -> set[str]:
    """The ids of the contracts import-linter finds broken in this folder."""
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    told = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout
    assert "Contracts: " in told, told
    return {key for key, name in CONTRACTS.items() if f"{name} BROKEN" in told}


def test_a_tree_without_imports_breaks_nothing(emptied_tree: Path) -> None:
    assert broken_contracts(emptied_tree) == set()


def test_every_contract_has_an_import_that_breaks_it() -> None:
    assert BREAKS.keys() == CONTRACTS.keys()


@pytest.mark.parametrize("contract", BREAKS)
def test_an_import_against_the_layers_is_refused(contract: str, emptied_tree: Path) -> None:
    importer, imported = BREAKS[contract]
    path = emptied_tree / "gpuaas" / importer
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"import {imported}\n")
    assert contract in broken_contracts(emptied_tree)


def test_a_folder_nobody_placed_is_refused(emptied_tree: Path) -> None:
    (emptied_tree / "gpuaas/somewhere").mkdir()
    (emptied_tree / "gpuaas/somewhere/__init__.py").touch()
    assert "layers" in broken_contracts(emptied_tree)
