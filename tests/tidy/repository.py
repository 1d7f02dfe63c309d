"""Rules about everything else that is checked in: secrets, addresses, migrations, documents and tests."""

import ast
import posixpath
import re
from collections.abc import Iterator
from functools import cache

from tests.tidy.boundaries import dotted
from tests.tidy.measures import ALL_PYTHON, FunctionNode
from tests.tidy.rule import Finding, Repo, Source, python_in, rule, text_files

MACHINE_PATHS = re.compile(r"""(?<![\w.~$}/-])/(root|home/\w+|Users/\w+|[w]ork|mnt|srv)/[\w.-]""")
REGISTRIES = re.compile(
    r"(?i)\b(py[p]i\.org|python[h]osted\.org|npm[j]s\.(org|com)|artifactor[y]|jfro[g]|ghc[r]\.io|index\.docke[r]\.io)"
)
INSTALL_OPTIONS = re.compile(r"^\s*--(extra-)?(index-url|find-links|trusted-host)\b|\"resolved\":")
SECRETS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]{0,5}[A-Za-z0-9+/]{40}"
    r"|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}\b|\bxox[abp]-[0-9A-Za-z-]{20,}"
    r"|\b[sr]k_live_[0-9A-Za-z]{20,}|\bwhsec_[0-9A-Za-z]{30,}"
    r"|\beyJ[A-Za-z0-9_-]{15,}\.eyJ[A-Za-z0-9_-]{15,}\.[A-Za-z0-9_-]{20,}"
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE_PATH = re.compile(r"`((?:src|tests|docs|migrations|contracts|scripts|requirements|bench|\.ci)/[\w./-]*)`")
MAKE = re.compile(r"(?:^|[`\s])make ([a-z][a-z-]*)(?=[`\s.,;:)]|$)")
MIN_WORDS = 3
PROMISES = re.compile(r"^(assert|expect|prove|check|must|refuse|validate)")


def markdown(path: str) -> bool:
    return path.endswith(".md") and text_files(path)


@rule(
    "no path of one machine and no package registry is written down",
    lambda path: path != "LICENSE",
    bad=[
        {"docs/x.md": "see /ro" + "ot/gpuaas\n"},
        {"src/gpuaas/a.py": "HERE = '/ho" + "me/anna/gpuaas'\n"},
        {"requirements/base.txt": "--index" + "-url somewhere\n"},
        {"tests/interop/package-lock.json": '"reso' + 'lved": "x"\n'},
        {"README.md": "from py" + "pi.org\n"},
    ],
    good=[{"docs/x.md": "data/ and ~/.config/gpuaas and /usr/bin\n"}],
)
def no_addresses(source: Source, repo: Repo) -> Iterator[Finding]:
    for number, line in enumerate(source.lines, start=1):
        for pattern in (MACHINE_PATHS, REGISTRIES, INSTALL_OPTIONS):
            match = pattern.search(line)
            if match and not (pattern is INSTALL_OPTIONS and source.path.endswith(".py")):
                yield source.finding(number, f"{match[0].strip()!r} belongs to one machine or one installation")


@rule(
    "no secret is checked in",
    lambda path: True,
    bad=[
        {"a.txt": "AK" + "IA" + "A" * 16},
        {"a.pem": "-----BEGIN PRIVATE" + " KEY-----\n" + "M" * 60},
        {"a.py": "token = 'ey" + "J" + "a" * 20 + ".eyJ" + "b" * 20 + "." + "c" * 30 + "'"},
    ],
    good=[{"a.md": "the header `-----BEGIN PRIVATE" + " KEY-----` is refused"}],
)
def no_secrets(source: Source, repo: Repo) -> Iterator[Finding]:
    for match in SECRETS.finditer(source.text):
        line = source.text.count("\n", 0, match.start()) + 1
        yield source.finding(line, f"looks like a secret: {match[0][:12]}…")


@rule(
    "migrations are numbered without a gap, and each has its way back",
    lambda path: path.startswith("migrations/sql/"),
    bad=[
        {"migrations/sql/0001_a.up.sql": ""},
        {"migrations/sql/0002_b.up.sql": "", "migrations/sql/0002_b.down.sql": ""},
        {"migrations/sql/first.sql": ""},
    ],
    good=[{"migrations/sql/0001_a.up.sql": "", "migrations/sql/0001_a.down.sql": ""}],
)
def numbered_migrations(source: Source, repo: Repo) -> Iterator[Finding]:
    # A long way up may be cut into parts (`0012_ledger.post.up.sql`); the way back is one.
    match = re.fullmatch(r"migrations/sql/(\d{4})_([a-z0-9_]+)(?:\.[a-z_]+(?=\.up))?\.(up|down)\.sql", source.path)
    if match is None:
        yield source.finding(1, "name it NNNN_what.up.sql and NNNN_what.down.sql")
        return
    number, name, way = match.groups()
    other = f"migrations/sql/{number}_{name}.{'down' if way == 'up' else 'up'}.sql"
    if not repo.has(other):
        yield source.finding(1, f"{other} is missing")
    before = f"{int(number) - 1:04}"
    if number != "0001" and not any(path.startswith(f"migrations/sql/{before}_") for path in repo.files):
        yield source.finding(1, f"there is no migration {before}")


@rule(
    "every link in a document leads somewhere",
    markdown,
    bad=[
        {"docs/a.md": "[b](b.md)"},
        {"docs/a.md": "[b](b.md#nowhere)", "docs/b.md": "# Here\n"},
        {"docs/a.md": "[b](#nowhere)\n# Here\n"},
    ],
    good=[
        {
            "docs/a.md": "[b](b.md#right-here) [c](../src/) [d](https://example.org)",
            "docs/b.md": "# Right here\n",
            "src/x": "",
        }
    ],
)
def links_lead(source: Source, repo: Repo) -> Iterator[Finding]:
    for number, line in enumerate(source.lines, start=1):
        for target in LINK.findall(line):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            full = posixpath.normpath(posixpath.join(posixpath.dirname(source.path), path)) if path else source.path
            if not repo.has(full):
                yield source.finding(number, f"{target} does not exist")
            elif anchor and anchor not in anchors(repo.files.get(full, "")):
                yield source.finding(number, f"{full} has no heading #{anchor}")


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ +(.+?)\s*$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@rule(
    "every file a document names exists",
    markdown,
    bad=[{"docs/a.md": "see `src/gpuaas/gone.py`"}],
    good=[{"docs/a.md": "see `src/gpuaas/` and `tests/every/<noun>.py`", "src/gpuaas/x.py": ""}],
)
def named_files_exist(source: Source, repo: Repo) -> Iterator[Finding]:
    for number, line in enumerate(source.lines, start=1):
        for path in CODE_PATH.findall(line):
            if not repo.has(path):
                yield source.finding(number, f"{path} does not exist")


@rule(
    "every make target a document names exists",
    markdown,
    bad=[{"README.md": "run `make magic`", "Makefile": "up: ## x\n"}],
    good=[{"README.md": "run `make up` to make sense of it", "Makefile": "up: .venv/.base ## x\n"}],
)
def named_targets_exist(source: Source, repo: Repo) -> Iterator[Finding]:
    targets = set(re.findall(r"^([a-z][a-z-]*):", repo.files.get("Makefile", ""), flags=re.MULTILINE))
    for number, line in enumerate(code_lines(source), start=1):
        for target in MAKE.findall(line):
            if target not in targets:
                yield source.finding(number, f"make {target} does not exist")


def code_lines(source: Source) -> Iterator[str]:
    """The lines of a document with only what is code left on them."""
    fenced = False
    for line in source.lines:
        if line.lstrip().startswith("```"):
            fenced = not fenced
            yield ""
        else:
            yield line if fenced else " ".join(f"`{code}`" for code in re.findall(r"`([^`]+)`", line))


@rule(
    "a test asserts something, and its name is a sentence",
    python_in("tests/"),
    bad=[
        {"tests/unit/test_a.py": "def test_a_thing_holds_always():\n    call()\n"},
        {"tests/unit/test_a.py": "def test_ids():\n    assert True\n"},
    ],
    good=[
        {"tests/unit/test_a.py": "def test_an_id_sorts_by_time():\n    assert a < b\n"},
        {"tests/unit/test_a.py": "def test_no_id_is_refused():\n    with raises(Invalid):\n        f()\n"},
        {"tests/unit/test_a.py": "def holds():\n    assert 1\n\ndef test_an_id_is_an_id():\n    holds()\n"},
        {"tests/every/test_a.py": "async def test_a_table_has_a_policy():\n    await expect_policy(1)\n"},
        {
            "tests/every/test_a.py": "async def test_all_of_them_arrive():\n    await stage.wait(1)\n",
            "tests/support/stage.py": "async def wait(n):\n    assert n\n",
        },
    ],
)
def tests_assert(source: Source, repo: Repo) -> Iterator[Finding]:
    if not source.path.rsplit("/", 1)[-1].startswith("test_"):
        return
    own = functions_of(source)
    known = support_functions(repo) | own
    for name, node in own.items():
        if not name.startswith("test_"):
            continue
        if not asserts(node, known, frozenset()):
            yield source.finding(node, f"{name} asserts nothing", name)
        if name.count("_") < MIN_WORDS:
            yield source.finding(node, f"{name}: say what must hold, as a sentence", name)


def functions_of(source: Source) -> dict[str, FunctionNode]:
    return {node.name: node for node in ast.walk(source.tree) if isinstance(node, FunctionNode)}


@cache
def support_functions(repo: Repo) -> dict[str, FunctionNode]:
    """What tests share: a test may let one of these do the asserting."""
    shared = [source for path, source in repo.sources.items() if path.startswith("tests/support/")]
    return {name: node for source in shared if ALL_PYTHON(source.path) for name, node in functions_of(source).items()}


def asserts(node: ast.AST, functions: dict[str, FunctionNode], seen: frozenset[str]) -> bool:
    """Whether the function, or one it calls that we know, asserts."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Assert) or is_assertion_error(inner):
            return True
        if isinstance(inner, ast.Call):
            called = dotted(inner.func).rsplit(".", 1)[-1]
            if called in {"raises", "fail"} or PROMISES.match(called):
                return True
            if called in functions and called not in seen and asserts(functions[called], functions, seen | {called}):
                return True
    return False


def is_assertion_error(node: ast.AST) -> bool:
    return isinstance(node, ast.Raise) and node.exc is not None and "AssertionError" in ast.dump(node.exc)


@rule(
    "no test is skipped",
    python_in("tests/"),
    bad=[
        {"tests/unit/test_a.py": "@pytest.mark.ski" + "p\ndef test_x(): ...\n"},
        {"tests/unit/test_a.py": "pytest.ski" + "p('no node here')\n"},
        {"tests/unit/test_a.py": "@pytest.mark.xfai" + "l\ndef test_x(): ...\n"},
    ],
    good=[{"tests/unit/test_a.py": "@pytest.mark.slow\ndef test_x(): ...\n"}],
)
def no_skips(source: Source, repo: Repo) -> Iterator[Finding]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and re.fullmatch(
            r"pytest\.(mark\.)?(skip|skipif|xfail|importorskip)", dotted(node)
        ):
            yield source.finding(node, f"{dotted(node)}: a test that cannot run is a failure with a cause to repair")
