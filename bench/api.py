"""Group `api`: what the pipeline costs, as ratios to the bare server and to the same SQL run by pgbench."""

import asyncio
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import asyncpg

from bench.figures import Figure, beside, bounded, in_turns
from bench.stage import ROWS, Stage, http_beside, http_per_second, pgbench_per_second, stage
from gpuaas.domains.identity.projects import store as projects
from gpuaas.domains.identity.projects.service import AT_ONCE
from gpuaas.infra.embedded.ports import free_port
from gpuaas.infra.http.pipeline import CLAIM
from gpuaas.infra.postgres.finish import FINISH
from gpuaas.infra.postgres.tx import NIL

MAX_RSS_MB = 120
CLIENTS = 8
MAX_PROJECTS = 100_000


def run(only: str | None) -> list[Figure]:
    with stage() as ready:
        rss = _rss_mb(ready.api_pid)
        figures: dict[str, Callable[[Stage], Figure]] = {
            "smallest_get": _smallest_get,
            "list_50": _list,
            "create": _create,
        }
        found = [make(ready) for name, make in figures.items() if only in {None, name}]
        if only in {None, "idle_rss"}:
            found.append(bounded("api.idle_rss", "MB", rss, MAX_RSS_MB))
        return found


def _smallest_get(ready: Stage) -> Figure:
    request = ready.request("GET", "/api/v1/auth/session")
    with _raw_app(ready, request) as port:
        return beside("api.smallest_get", "requests/s", lambda: http_beside(ready.port, port, CLIENTS, request), 0.5)


def _list(ready: Stage) -> Figure:
    request = ready.request("GET", f"/api/v1/orgs/{ready.org_id}/projects?limit={ROWS}")
    script = _bind(projects.LIST, [f"'{ready.org_id}'::uuid", f"'{NIL}'::uuid", str(ROWS + 1)])
    return in_turns(
        "api.list_50",
        "lists/s",
        lambda: http_per_second(ready.port, 1, request),
        lambda: pgbench_per_second(ready, script + ";", 1),
        0.20,
    )


def _create(ready: Stage) -> Figure:
    body = '{"name": "p-{n}", "title": "A project"}'
    request = ready.request("POST", f"/api/v1/orgs/{ready.org_id}/projects", body, Idempotency_Key="{n}")

    def ours() -> float:
        asyncio.run(_as_before(ready))
        return http_per_second(ready.port, CLIENTS, request)

    def limit() -> float:
        asyncio.run(_as_before(ready))
        return pgbench_per_second(ready, _create_script(ready), CLIENTS)

    return in_turns("api.create", "creates/s", ours, limit, 0.40)


async def _as_before(ready: Stage) -> None:
    """Each run begins with the projects there were at first: it counts them."""
    connection = await asyncpg.connect(ready.superuser_url)
    await connection.execute("DELETE FROM projects WHERE name ~ '^[pb]-'")
    await connection.execute("VACUUM ANALYZE projects")
    await connection.close()


def _create_script(ready: Stage) -> str:
    """The statements of one `project_create`, as the pipeline sends them, with the same sizes."""
    org, account = f"'{ready.org_id}'::uuid", f"'{ready.account_id}'::uuid"
    name, key = (
        "'b-' || :client_id::text || '-' || :a::text || '-' || :b::text",
        "'k-' || :client_id::text || '-' || :a::text || '-' || :b::text",
    )
    payload = '\'{"project_id": "00000000-0000-7000-8000-000000000000", "name": "b-123456789"}\''
    audit = [
        "uuidv7()",
        "'project.create'",
        "'project_create'",
        "'service_account'",
        account,
        "'bench'",
        org,
        "NULL::uuid",
        account,
        f"'{'c' * 26}'",
        "'127.0.0.1'",
        '\'{"name": "p", "title": "A project"}\'',
    ]
    event = [
        "uuidv7()",
        "'PLATFORM'",
        "'project.created'",
        "1",
        org,
        account,
        "'service_account-bench'",
        f"'{'c' * 26}'",
        f"'{'t' * 55}'",
        payload + "::jsonb",
    ]
    answer = [account, key, "201::smallint", f"'{'b' * 200}'::bytea"]
    # The audit row's id stands in two tables: the pipeline makes it, here a first CTE does.
    finish = FINISH.replace("$1::uuid IS NOT NULL", "true").replace("SELECT $1 WHERE true", "SELECT id FROM made")
    finish = finish.replace("WITH audited", "WITH made AS MATERIALIZED (SELECT uuidv7() AS id), audited")
    finish = finish.replace("SELECT $1, $2", "SELECT (SELECT id FROM made), $2")
    return "\n".join(
        [
            "\\set a random(1, 1000000000)",
            "\\set b random(1, 1000000000)",
            "BEGIN;",
            _bind(CLAIM, [account, key, "'project_create'", "'\\\\x00'::bytea || decode(repeat('ab', 31), 'hex')"])
            + ";",
            _bind(projects.INSERT, ["uuidv7()", org, name, "'A project'", str(MAX_PROJECTS - AT_ONCE)]) + ";",
            _bind(finish, [*audit, *(f"ARRAY[{value}]" for value in event), *answer]) + ";",
            "COMMIT;",
        ]
    )


def _bind(sql: str, values: list[str]) -> str:
    """The statement with literals in place of its parameters, on one line, as pgbench reads it."""
    for number in range(len(values), 0, -1):
        sql = sql.replace(f"${number}", values[number - 1])
    return " ".join(sql.split())


def _rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def _answer(port: int, request: bytes) -> bytes:
    """One answer as the server sends it: its end is known by closing the connection after it."""
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as answer:
        connection.sendall(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
        return answer.read().replace(b"connection: close\r\n", b"", 1)


@contextmanager
def _raw_app(ready: Stage, request: bytes) -> Iterator[int]:
    """The same server with a bare ASGI application that sends the same bytes and does nothing else."""
    port = free_port()
    child = subprocess.Popen([sys.executable, "-m", "bench.raw", str(port)], stdin=subprocess.PIPE)
    assert child.stdin is not None
    child.stdin.write(_answer(ready.port, request))
    child.stdin.close()
    try:
        for _ in range(100):
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1):
                break
            time.sleep(0.05)
        yield port
    finally:
        child.terminate()
        child.wait(10)
