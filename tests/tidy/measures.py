"""Rules about size and names: what keeps the tail of the code short."""

import ast
import re
from collections.abc import Iterator

from tests.tidy.rule import Finding, Repo, Source, python_in, rule, text_files

ALL_PYTHON = python_in("src/", "tests/", "bench/", "scripts/", "migrations/")
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_MAIN_LINES = 150
NAMELESS = frozenset({"util", "utils", "helper", "helpers", "common", "misc"})
REQUIREMENT = re.compile(r"\b(ID|EDGE|POL|INV|ALLOC|NODE|SLICE|MAAS|BILL|PAY|EVT|TERM|STO|APP|UX|OPS)-\d+\b")
LATER = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
FILLER = frozenset({"a", "an", "and", "for", "is", "of", "on", "the", "this", "to", "module", "class", "function"})

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@rule(
    "a file has at most 500 lines",
    lambda path: text_files(path) and path.endswith((".py", ".sql", ".md", ".toml")),
    bad=[{"src/gpuaas/kit/long.py": "x = 1\n" * (MAX_FILE_LINES + 1)}],
    good=[{"src/gpuaas/kit/long.py": "x = 1\n" * MAX_FILE_LINES}],
)
def short_files(source: Source, repo: Repo) -> Iterator[Finding]:
    if len(source.lines) > MAX_FILE_LINES:
        yield source.finding(1, f"{len(source.lines)} lines; cut it along its nouns")


@rule(
    "a program's main.py has at most 150 lines",
    lambda path: path.startswith("src/gpuaas/processes/") and path.endswith("/main.py"),
    bad=[{"src/gpuaas/processes/api/main.py": "x = 1\n" * (MAX_MAIN_LINES + 1)}],
    good=[{"src/gpuaas/processes/api/main.py": "x = 1\n" * MAX_MAIN_LINES}],
)
def short_mains(source: Source, repo: Repo) -> Iterator[Finding]:
    if len(source.lines) > MAX_MAIN_LINES:
        yield source.finding(1, f"{len(source.lines)} lines; main reads settings, picks implementations, lists parts")


@rule(
    "a function has at most 60 lines",
    ALL_PYTHON,
    bad=[{"tests/unit/test_x.py": "def f():\n" + "    x = 1\n" * MAX_FUNCTION_LINES}],
    good=[{"tests/unit/test_x.py": "def f():\n" + "    x = 1\n" * (MAX_FUNCTION_LINES - 1)}],
)
def short_functions(source: Source, repo: Repo) -> Iterator[Finding]:
    for node in ast.walk(source.tree):
        if isinstance(node, FunctionNode):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield source.finding(node, f"{node.name} has {length} lines", node.name)


@rule(
    "no module is named for nothing (utils, helpers, common, misc)",
    ALL_PYTHON,
    bad=[
        {"src/gpuaas/kit/utils.py": ""},
        {"tests/support/http_helpers.py": ""},
        {"src/gpuaas/common/x.py": ""},
    ],
    good=[{"src/gpuaas/kit/clock.py": ""}],
)
def named_modules(source: Source, repo: Repo) -> Iterator[Finding]:
    words = set(re.split(r"[/_.]", source.path))
    if words & NAMELESS:
        yield source.finding(1, "name the module for the one thing it owns")


@rule(
    "what is left for later cites the requirement it is left from",
    text_files,
    bad=[{"src/gpuaas/kit/x.py": "# TO" + "DO: later"}, {"docs/x.md": "FIX" + "ME"}],
    good=[{"src/gpuaas/kit/x.py": "# TO" + "DO EDGE-4: the terminal lane"}],
)
def later_is_named(source: Source, repo: Repo) -> Iterator[Finding]:
    for number, line in enumerate(source.lines, start=1):
        if LATER.search(line) and not REQUIREMENT.search(line):
            yield source.finding(number, "name the requirement (like EDGE-4) or do it now")


@rule(
    "a module says what it owns",
    python_in("src/", "bench/", "tests/"),
    bad=[{"src/gpuaas/kit/x.py": "x = 1\n"}, {"src/gpuaas/kit/ids.py": '"""Ids module."""\n'}],
    good=[
        {"src/gpuaas/kit/__init__.py": ""},
        {"src/gpuaas/kit/x.py": '"""Identifiers: one type per noun."""\n'},
    ],
)
def modules_speak(source: Source, repo: Repo) -> Iterator[Finding]:
    if not source.text.strip():
        return
    said = ast.get_docstring(source.tree)
    if not said:
        yield source.finding(1, "the module docstring is missing: what does it own, what always holds?")
    elif repeats(said, source.path.removesuffix(".py").rsplit("/", 1)[-1]):
        yield source.finding(1, "the module docstring repeats the name")


@rule(
    "no docstring repeats the name it stands under",
    ALL_PYTHON,
    bad=[{"src/gpuaas/kit/x.py": 'def project_create():\n    """Create the project."""\n'}],
    good=[
        {"src/gpuaas/kit/x.py": 'def project_create():\n    """Refused while suspended."""\n'},
        {"src/gpuaas/kit/x.py": 'def micros():\n    """3.50 → 3500000."""\n'},
    ],
)
def docstrings_add(source: Source, repo: Repo) -> Iterator[Finding]:
    for node in ast.walk(source.tree):
        if isinstance(node, FunctionNode | ast.ClassDef):
            said = ast.get_docstring(node)
            if said and not is_operation(node) and repeats(said, node.name):
                yield source.finding(node, f"the docstring of {node.name} repeats its name", node.name)


def is_operation(node: ast.AST) -> bool:
    """A handler's docstring is the operation's summary in the contract, where plain words are right."""
    decorators = getattr(node, "decorator_list", [])
    return any(isinstance(d, ast.Call) and getattr(d.func, "id", "") == "operation" for d in decorators)


def repeats(said: str, name: str) -> bool:
    spoken = re.findall(r"[a-z]+", said.lower())
    words = {stem(word) for word in spoken} - {stem(word) for word in FILLER}
    of_name = {stem(word) for word in re.findall(r"[a-z]+", re.sub(r"([A-Z])", r"_\1", name).lower())}
    return bool(spoken) and words <= of_name


def stem(word: str) -> str:
    return re.sub(r"(ing|ed|es|s|e)$", "", word) or word


@rule(
    "an exemption from a checker carries its reason",
    ALL_PYTHON,
    bad=[
        {"src/gpuaas/kit/x.py": "import os  # no" + "qa: F401\n"},
        {"src/gpuaas/kit/x.py": "x = y()  # type: ig" + "nore[attr-defined]\n"},
        {"src/gpuaas/kit/x.py": "import os  # no" + "qa\n"},
    ],
    good=[
        {"src/gpuaas/kit/x.py": "import os  # no" + "qa: F401 - re-exported for callers\n"},
        {"src/gpuaas/kit/x.py": "x = y()  # type: ig" + "nore[attr-defined]  # asyncpg builds it at run time\n"},
    ],
)
def exemptions_explain(source: Source, repo: Repo) -> Iterator[Finding]:
    exemption = re.compile(r"#\s*(no" + r"qa(:\s*[A-Z0-9, ]+\d)?|type:\s*ig" + r"nore(\[[a-z, -]+\])?)(?P<reason>.*)$")
    for number, line in enumerate(source.lines, start=1):
        match = exemption.search(line)
        if match and len(re.findall(r"[a-z]{2,}", match["reason"].lower())) < 2 and not inside_string(line, match):
            yield source.finding(number, "say why, after the code")


def inside_string(line: str, match: re.Match[str]) -> bool:
    return line[: match.start()].count('"') % 2 == 1


@rule(
    "text ends with a newline and no line ends with a space",
    lambda path: text_files(path) and not path.endswith((".svg", ".json")),
    bad=[{"docs/x.md": "no end"}, {"docs/x.md": "space \n"}, {"docs/x.md": "dos\r\n"}],
    good=[{"docs/x.md": "fine\n"}, {"docs/x.md": ""}],
)
def clean_lines(source: Source, repo: Repo) -> Iterator[Finding]:
    if source.text and not source.text.endswith("\n"):
        yield source.finding(len(source.lines), "the last line has no newline")
    for number, line in enumerate(source.text.split("\n"), start=1):
        if line != line.rstrip():
            yield source.finding(number, "white space at the end of the line")
