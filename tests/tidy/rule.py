"""What a rule about the repository is: a sentence, a check over files, and examples that prove it can fail.

A rule sees one file at a time, and the whole repository beside it for the few questions that need it (does a
link lead anywhere?). The repository is only names and texts, so an example is a repository too.
"""

import ast
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ("contracts/", "requirements/", "tests/interop/package-lock.json", "LICENSE")


@dataclass(frozen=True)
class Finding:
    """One place that breaks a rule. `name` is the function or the other thing to blame, if there is one."""

    path: str
    line: int
    why: str
    name: str = ""

    @property
    def key(self) -> str:
        return f"{self.path}::{self.name}" if self.name else self.path

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.why}"


@dataclass(frozen=True)
class Source:
    """One file, parsed at most once."""

    path: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=self.path)

    @cached_property
    def docstrings(self) -> set[int]:
        """Which string nodes are documentation, so that a rule about SQL may pass them by."""
        owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, owners) and node.body and isinstance(node.body[0], ast.Expr):
                found.add(id(node.body[0].value))
        return found

    def strings(self) -> Iterator[ast.Constant]:
        """Every string that is not documentation, the parts of f-strings included."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in self.docstrings:
                yield node

    def finding(self, where: ast.AST | int, why: str, name: str = "") -> Finding:
        line = where if isinstance(where, int) else getattr(where, "lineno", 1)
        return Finding(self.path, line, why, name)


@dataclass(frozen=True, eq=False, repr=False)
class Repo:
    """Names and texts of files. `folders` are implied by the names."""

    files: Mapping[str, str]
    sources: Mapping[str, Source] = field(init=False)
    folders: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        parents = {str(parent) for path in self.files for parent in Path(path).parents}
        object.__setattr__(self, "folders", frozenset(parents))
        object.__setattr__(self, "sources", {path: Source(path, text) for path, text in self.files.items()})

    def has(self, path: str) -> bool:
        return path in self.files or path.rstrip("/") in self.folders


Check = Callable[[Source, Repo], Iterator[Finding]]
Applies = Callable[[str], bool]


@dataclass(frozen=True)
class Rule:
    name: str
    sentence: str
    applies: Applies
    check: Check
    bad: Sequence[Mapping[str, str]]
    good: Sequence[Mapping[str, str]]

    def findings(self, repo: Repo) -> list[Finding]:
        looked_at = [source for path, source in sorted(repo.sources.items()) if self.applies(path)]
        return [finding for source in looked_at for finding in self.check(source, repo)]


RULES: list[Rule] = []


def rule(
    sentence: str,
    applies: Applies,
    *,
    bad: Sequence[Mapping[str, str]],
    good: Sequence[Mapping[str, str]] = (),
) -> Callable[[Check], Check]:
    """Registers a check. A rule without a bad example is refused: nobody would know whether it can fail."""

    def register(check: Check) -> Check:
        if not bad:
            raise ValueError(f"{check.__name__} needs an example it refuses")
        RULES.append(Rule(check.__name__, sentence, applies, check, bad, good))
        return check

    return register


def python_in(*folders: str) -> Applies:
    return lambda path: path.endswith(".py") and path.startswith(folders)


def text_files(path: str) -> bool:
    """What people write. Generated files answer to their generator."""
    return not path.startswith(GENERATED)


def read_repository() -> Repo:
    """Every file git tracks or would track, if it is text; what .gitignore names does not exist here."""
    command = [
        "git",
        "-c",
        "safe.directory=*",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    files = {}
    for name in sorted(set(listed.split("\0")) - {""}):
        path = ROOT / name
        if not path.is_file():
            continue
        raw = path.read_bytes()
        if b"\0" not in raw:
            files[name] = raw.decode("utf-8")
    return Repo(files)
