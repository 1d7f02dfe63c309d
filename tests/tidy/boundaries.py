"""Rules about who may do what: clock, environment, transactions, states, SQL and the doors of domains.

import-linter holds the direction of imports; these hold what imports cannot show.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath

from tests.tidy.measures import FunctionNode
from tests.tidy.rule import Finding, Repo, Source, python_in, rule

SRC = python_in("src/")
DOMAIN_FILES = frozenset({"__init__", "routes", "handlers", "service", "store", "models", "states"})
OUTSIDE_WORLD = ("gpuaas.infra", "gpuaas.client", "asyncpg", "httpx", "nats", "starlette")
BANNED = {
    "pydantic": "msgspec is our only model library",
    "fastapi": "operations are declared in infra.http",
    "authlib": "tokens are joserfc's; the issuer is ours (docs/rfd/0005)",
    "redis": "PostgreSQL is the only truth",
    "jwt": "tokens are joserfc's",
    "requests": "httpx, and never inside a transaction",
    "sqlalchemy.orm": "SQL is written as SQL",
    "unittest.mock": "tests run against the real component",
}
SQL = re.compile(
    r"\s*(SELECT\s|INSERT\s+INTO\s|UPDATE\s+\S+\s+SET\s|DELETE\s+FROM\s|WITH\s+\w+\s+AS\s|TRUNCATE\s|LOCK\s+TABLE\s"
    r"|(CREATE|ALTER|DROP)\s+(TABLE|ROLE|INDEX|DATABASE|SCHEMA|POLICY|VIEW|FUNCTION|EXTENSION)\s"
    r"|GRANT\s|REVOKE\s|SET\s+LOCAL\s|NOTIFY\s|LISTEN\s|COPY\s+\w+)"
)
# Beside the stores: the machinery's own tables (rates, idempotency keys) and the roles of a new cluster.
SQL_HOMES = re.compile(
    r"src/gpuaas/(domains/.+/store\.py|infra/postgres/.+|infra/http/(rate|pipeline)\.py|infra/embedded/cluster\.py)"
)
ENVIRONMENT_READERS = re.compile(r"src/gpuaas/processes/(settings|\w+/(main|entry|settings))\.py")


def dotted(node: ast.AST) -> str:
    """`a.b.c` of an attribute chain, or nothing."""
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else node.attr
    return node.id if isinstance(node, ast.Name) else ""


def imports(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Every name imported, written in full."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


@rule(
    "nobody assigns a state: one statement in store.py moves it, and the database decides the race",
    lambda path: SRC(path) and not path.startswith(("src/gpuaas/client/", "src/gpuaas/processes/cli/")),
    bad=[
        {"src/gpuaas/domains/a/service.py": "project.state = 'active'\n"},
        {"src/gpuaas/domains/a/service.py": "setattr(project, 'state', 1)\n"},
        {"src/gpuaas/domains/a/service.py": "new = replace(project, state=1)\n"},
    ],
    good=[{"src/gpuaas/infra/http/app.py": "app.state.pool = 1\nif x.state == 2: pass\n"}],
)
def states_move(source: Source, repo: Repo) -> Iterator[Finding]:
    for node in ast.walk(source.tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        if any(isinstance(target, ast.Attribute) and target.attr == "state" for target in targets):
            yield source.finding(node, "assigns .state")
        if isinstance(node, ast.Call):
            called = dotted(node.func).rsplit(".", 1)[-1]
            named = len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and node.args[1].value == "state"
            if called == "setattr" and named:
                yield source.finding(node, "sets the state")
            if called == "replace" and any(keyword.arg == "state" for keyword in node.keywords):
                yield source.finding(node, "replaces the state")


@rule(
    "nobody commits: infra/postgres ends transactions",
    lambda path: SRC(path) and not path.startswith("src/gpuaas/infra/postgres/"),
    bad=[
        {"src/gpuaas/domains/a/service.py": "await tx.commit()\n"},
        {"src/gpuaas/domains/a/store.py": "SQL = 'UPDATE a SET b = 1; COM" + "MIT'\n"},
        {"src/gpuaas/processes/api/main.py": "await connection.rollback()\n"},
    ],
    good=[
        {"src/gpuaas/infra/postgres/tx.py": "await connection.execute('COM" + "MIT')\n"},
        {"src/gpuaas/domains/a/service.py": "tx.after_commit(wake)\n"},
    ],
)
def nobody_commits(source: Source, repo: Repo) -> Iterator[Finding]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and dotted(node.func).rsplit(".", 1)[-1] in {"commit", "rollback"}:
            yield source.finding(node, "ends a transaction by hand")
    for text in source.strings():
        if re.search(r"\b(COMMIT|ROLLBACK)\b", str(text.value)):
            yield source.finding(text, "ends a transaction in SQL")


@rule(
    "only kit/clock.py reads the clock",
    lambda path: SRC(path) and path != "src/gpuaas/kit/clock.py",
    bad=[
        {"src/gpuaas/a.py": "datetime.now(UTC)\n"},
        {"src/gpuaas/a.py": "import datetime\ndatetime.datetime.utcnow()\n"},
        {"src/gpuaas/a.py": "time.time()\n"},
        {"src/gpuaas/a.py": "from time import time\n"},
    ],
    good=[
        {"src/gpuaas/a.py": "time.monotonic()\nclock.now()\n"},
        {"src/gpuaas/kit/clock.py": "datetime.now(UTC)\n"},
    ],
)
def one_clock(source: Source, repo: Repo) -> Iterator[Finding]:
    forbidden = re.compile(r"(.*\.)?(datetime\.(now|utcnow|today)|date\.today|time\.(time|time_ns|gmtime|localtime))")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and forbidden.fullmatch(dotted(node)):
            yield source.finding(node, f"{dotted(node)}: ask gpuaas.kit.clock")
    for node, name in imports(source.tree):
        if name in {"time.time", "time.time_ns", "time.gmtime", "time.localtime"}:
            yield source.finding(node, f"{name}: ask gpuaas.kit.clock")


@rule(
    "settings are read once, by a program's main: no os.environ below",
    lambda path: SRC(path) and not ENVIRONMENT_READERS.fullmatch(path),
    bad=[
        {"src/gpuaas/infra/a.py": "import os\nos.environ['A']\n"},
        {"src/gpuaas/infra/a.py": "from os import environ\n"},
        {"src/gpuaas/domains/a/service.py": "import os\nos.getenv('A')\n"},
    ],
    good=[{"src/gpuaas/processes/api/main.py": "import os\nos.environ['A']\n"}],
)
def one_environment(source: Source, repo: Repo) -> Iterator[Finding]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and dotted(node) in {
            "os.environ",
            "os.getenv",
            "os.environb",
            "os.putenv",
        }:
            yield source.finding(node, f"{dotted(node)}: pass the value down from main")
    for node, name in imports(source.tree):
        if name in {"os.environ", "os.getenv"}:
            yield source.finding(node, f"{name}: pass the value down from main")


@rule(
    "SQL lives in store.py, infra/postgres and migrations",
    lambda path: SRC(path) and not SQL_HOMES.fullmatch(path),
    bad=[
        {"src/gpuaas/domains/a/service.py": "await tx.row('SELECT 1 FROM a')\n"},
        {"src/gpuaas/processes/api/main.py": 'x = f"""\n    DELETE FROM {table} WHERE a"""\n'},
    ],
    good=[
        {"src/gpuaas/domains/a/store.py": "GET = 'SELECT 1 FROM a'\n"},
        {"src/gpuaas/domains/apps/instances/store.py": "GET = 'SELECT 1 FROM a'\n"},
        {"src/gpuaas/domains/a/service.py": '"""SELECT nothing here."""\nx = "Select a project first"\n'},
    ],
)
def sql_at_home(source: Source, repo: Repo) -> Iterator[Finding]:
    for text in source.strings():
        if SQL.match(str(text.value)):
            yield source.finding(text, "SQL outside its home: move it to the domain's store.py")


@rule(
    "a domain folder holds routes, handlers, service, store, models, states and pure concept files",
    python_in("src/gpuaas/domains/"),
    bad=[
        {"src/gpuaas/domains/a/manager.py": '"""X."""\nasync def manage(): ...\n'},
        {"src/gpuaas/domains/a/rating.py": '"""X."""\nfrom gpuaas.infra.postgres.tx import Tx\n'},
        {"src/gpuaas/domains/loose.py": '"""X."""\n'},
    ],
    good=[
        {"src/gpuaas/domains/a/service.py": "async def project_create(): ...\n"},
        {"src/gpuaas/domains/a/rating.py": '"""What a second costs."""\ndef owed(): ...\n'},
        {"src/gpuaas/domains/__init__.py": ""},
    ],
)
def domain_files(source: Source, repo: Repo) -> Iterator[Finding]:
    path = PurePosixPath(source.path)
    if path.stem in DOMAIN_FILES:
        return
    if path.parent.name == "domains":
        yield source.finding(1, "a domain is a folder")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.AsyncFunctionDef):
            yield source.finding(node, f"{path.stem}.py is a concept file: it decides, it does not wait")
            return
    for node, name in imports(source.tree):
        if within(name, OUTSIDE_WORLD):
            yield source.finding(node, f"{path.stem}.py is a concept file: it may not know {name}")


@rule(
    "a domain's store belongs to it alone; its service is the door for others",
    SRC,
    bad=[
        {"src/gpuaas/domains/a/service.py": "from gpuaas.domains.b import store\n"},
        {"src/gpuaas/domains/a/service.py": "from gpuaas.domains.b.store import project\n"},
        {"src/gpuaas/processes/api/main.py": "import gpuaas.domains.b.store\n"},
    ],
    good=[
        {"src/gpuaas/domains/a/service.py": "from gpuaas.domains.a import store\n"},
        {"src/gpuaas/domains/a/service.py": "from gpuaas.domains.b import service\n"},
    ],
)
def no_foreign_store(source: Source, repo: Repo) -> Iterator[Finding]:
    here = str(PurePosixPath(source.path).parent).removeprefix("src/").replace("/", ".")
    for node, name in imports(source.tree):
        match = re.match(r"(gpuaas\.domains\..+?)\.store(\.|$)", name)
        if match and match[1] != here:
            yield source.finding(node, f"{name}: call the domain's service")


@rule(
    "libraries we decided against stay out",
    python_in("src/", "tests/", "bench/", "migrations/"),
    bad=[
        {"src/gpuaas/a.py": "from pydantic import BaseModel\n"},
        {"tests/unit/test_a.py": "from unittest import mock\n"},
        {"src/gpuaas/infra/http/a.py": "from starlette.middleware.base import BaseHTTPMiddleware\n"},
    ],
    good=[{"src/gpuaas/a.py": "import msgspec\nfrom starlette.requests import Request\n"}],
)
def banned_imports(source: Source, repo: Repo) -> Iterator[Finding]:
    for node, name in imports(source.tree):
        for package, why in BANNED.items():
            if within(name, (package,)):
                yield source.finding(node, f"{package}: {why}")
        if "BaseHTTPMiddleware" in name:
            yield source.finding(node, "BaseHTTPMiddleware costs 0.2 ms a request: write pure ASGI middleware")


# Words (contracts, ports, kit) may come before their first use; what does something may not.
KEPT_IF_USED = python_in(*(f"src/gpuaas/{folder}/" for folder in ("processes", "domains", "infra", "client")))
LOADED_BY_NAME = re.compile(
    r".*/(__init__|__main__|main|routes|handlers)\.py|src/gpuaas/processes/cli/commands/\w+\.py"
)


@rule(
    "a module that nobody imports is not kept",
    lambda path: KEPT_IF_USED(path) and not LOADED_BY_NAME.fullmatch(path),
    bad=[{"src/gpuaas/infra/a.py": "", "src/gpuaas/processes/api/main.py": "from gpuaas.infra import b\n"}],
    good=[
        {"src/gpuaas/infra/a.py": "", "src/gpuaas/processes/api/main.py": "from gpuaas.infra import a\n"},
        {"src/gpuaas/infra/a.py": "", "src/gpuaas/processes/api/main.py": "x = 'gpuaas.infra.a'\n"},
    ],
)
def modules_are_used(source: Source, repo: Repo) -> Iterator[Finding]:
    module = source.path.removeprefix("src/").removesuffix(".py").replace("/", ".")
    if module not in used_modules(repo):
        yield source.finding(1, f"nobody in src imports {module}")


@cache
def used_modules(repo: Repo) -> frozenset[str]:
    """Every module another one imports, or names in a string to load it later."""
    used: set[str] = set()
    for source in repo.sources.values():
        if SRC(source.path):
            for _, name in imports(source.tree):
                used |= {name, name.rpartition(".")[0]}
            used |= {str(text.value) for text in source.strings() if str(text.value).startswith("gpuaas.")}
    return frozenset(used)


HANDLER = "@operation('GET', '/a')\nasync def a_read(cx):\n"
MAX_HANDLER_STATEMENTS = 6


@rule(
    "a handler only calls a verb and shapes the answer",
    lambda path: path.startswith("src/gpuaas/domains/") and path.endswith("/routes.py"),
    bad=[
        {"src/gpuaas/domains/a/routes.py": HANDLER + "    x = await service.a_read(cx.tx)\n" * 7},
        {"src/gpuaas/domains/a/routes.py": HANDLER + "    return await cx.tx.row('x')\n"},
    ],
    good=[{"src/gpuaas/domains/a/routes.py": HANDLER + "    return view(await service.a_read(cx.tx))\n"}],
)
def thin_handlers(source: Source, repo: Repo) -> Iterator[Finding]:
    for node in source.tree.body:
        if not isinstance(node, FunctionNode) or not node.decorator_list:
            continue
        statements = sum(isinstance(inner, ast.stmt) for inner in ast.walk(node)) - 1
        if statements > MAX_HANDLER_STATEMENTS:
            yield source.finding(node, f"{node.name} has {statements} statements: the verb is the service's", node.name)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call) and re.fullmatch(r"cx\.tx\.(row|rows|value|run)", dotted(inner.func)):
                yield source.finding(inner, f"{node.name} asks the database itself", node.name)
