"""Where the API is measured: real PostgreSQL and NATS with full durability, the real `gpuaas api`, one organisation
and a service account in it; and PostgreSQL's own pgbench beside them."""

import asyncio
import base64
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg

from gpuaas.infra.embedded.binaries import postgres_binaries
from gpuaas.infra.embedded.home import make_temporary_directory
from gpuaas.infra.embedded.nats import EmbeddedNats
from gpuaas.infra.embedded.ports import free_port
from gpuaas.infra.embedded.postgres import EmbeddedPostgres
from gpuaas.infra.postgres import migrate
from gpuaas.kit.ids import new_id
from gpuaas.kit.secrets import SERVICE_KEY_PREFIX, new_token, token_hash

SECONDS = 2.0
READY_SECONDS = 30
ROWS = 50


@dataclass(frozen=True)
class Stage:
    home: Path
    socket_dir: Path
    app_url: str
    superuser_url: str
    nats_url: str
    port: int
    api_pid: int
    org_id: UUID
    account_id: UUID
    key: str

    def request(self, method: str, path: str, body: str = "", **headers: str) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", f"Authorization: Bearer {self.key}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if body:
            # {n} becomes nineteen digits.
            length = len(body) + body.count("{n}") * 16
            lines += ["Content-Type: application/json", f"Content-Length: {length}"]
        return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


def http_per_second(port: int, connections: int, request: bytes) -> float:
    """Requests a second."""
    return _load([port], connections, request)[0]


def http_beside(port: int, other: int, connections: int, request: bytes) -> tuple[float, float]:
    """Requests a second of two servers that are asked in turns, many times a second."""
    one, two = _load([port, other], connections, request)
    return one, two


def _load(ports: list[int], connections: int, request: bytes) -> list[float]:
    """A single refused request makes the figure worthless, so it stops everything."""
    ran = subprocess.run(
        [sys.executable, "-m", "bench.load", ",".join(map(str, ports)), str(connections), str(SECONDS)],
        input=request,
        capture_output=True,
        check=True,
        timeout=60,
    )
    rates = []
    for line in ran.stdout.splitlines():
        done, errors, spent = line.split()
        if int(errors) or not int(done):
            raise RuntimeError(f"{int(errors)} of {int(done)} requests failed: {ran.stderr.decode()[:800]}")
        rates.append(int(done) / float(spent))
    return rates


def pgbench_per_second(stage: Stage, script: str, clients: int, *, org: str = "") -> float:
    path = stage.home / "script.sql"
    path.write_text(script)
    parts = urlsplit(stage.app_url)
    ran = subprocess.run(
        [
            postgres_binaries().directory / "bin" / "pgbench",
            "-n",
            "-M",
            "prepared",
            "-f",
            path,
            "-c",
            str(clients),
            "-j",
            "1",
            "-T",
            str(max(1, round(SECONDS))),
            "-h",
            str(stage.socket_dir),
            "-p",
            str(parts.port),
            "-U",
            parts.username or "",
            parts.path.lstrip("/"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={
            "PGPASSWORD": parts.password or "",
            "LC_ALL": "C",
            "PGOPTIONS": f"-c app.org_id={org or stage.org_id} -c app.actor_id={stage.account_id}",
            "LD_LIBRARY_PATH": str(postgres_binaries().directory / "lib"),
        },
    )
    line = next((line for line in ran.stdout.splitlines() if line.startswith("tps = ")), None)
    if line is None or "number of failed transactions: 0 " not in ran.stdout:
        raise RuntimeError(f"pgbench: {ran.stdout[-800:]} {ran.stderr[-800:]}")
    return float(line.split()[2])


@contextmanager
def stage() -> Iterator[Stage]:
    home = make_temporary_directory()
    postgres, nats = EmbeddedPostgres(home), EmbeddedNats(home)
    api: subprocess.Popen[bytes] | None = None
    try:
        urls, nats_url = postgres.start(), nats.start()
        migrate.upgrade(urls.owner, app_role="gpuaas_app")
        org_id, account_id, key = new_id(), new_id(), new_token(SERVICE_KEY_PREFIX)
        asyncio.run(_fill(urls.superuser, org_id, account_id, key))
        port = free_port()
        app_url = _by_socket(urls.app, postgres.socket_directory)
        with (home / "api.log").open("wb") as log:
            api = subprocess.Popen(
                [sys.executable, "-m", "gpuaas", "api"],
                stderr=log,
                env=os.environ
                | {
                    "GPUAAS_DATABASE_URL": app_url,
                    "GPUAAS_NATS_URL": nats_url,
                    "GPUAAS_PORT": str(port),
                    "GPUAAS_MASTER_KEY": base64.b64encode(os.urandom(32)).decode(),
                    "GPUAAS_PUBLIC_URL": f"http://127.0.0.1:{port}",
                    "GPUAAS_ENVIRONMENT": "demo",
                },
            )
        _wait(port, api, home / "api.log")
        yield Stage(
            home, postgres.socket_directory, urls.app, urls.superuser, nats_url, port, api.pid, org_id, account_id, key
        )
    finally:
        if api is not None:
            api.terminate()
            with suppress(subprocess.TimeoutExpired):
                api.wait(10)
            api.kill()
        nats.destroy()
        postgres.destroy()
        shutil.rmtree(home, ignore_errors=True)


def _by_socket(url: str, directory: Path) -> str:
    parts = urlsplit(url)
    return (
        f"postgresql://{parts.username}:{parts.password}@/{parts.path.lstrip('/')}?host={directory}&port={parts.port}"
    )


def _wait(port: int, api: "subprocess.Popen[bytes]", log: Path) -> None:
    give_up_at, said = time.monotonic() + READY_SECONDS, ""
    while time.monotonic() < give_up_at and api.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2):
                return
        except urllib.error.HTTPError as error:
            said = error.read().decode()
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"the api did not get ready: {said} {log.read_text()[-1000:]}")


async def _fill(url: str, org_id: UUID, account_id: UUID, key: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("INSERT INTO orgs (id, name, title) VALUES ($1, 'bench', 'Bench')", org_id)
    await connection.execute(
        "INSERT INTO service_accounts (id, org_id, name, role, allowed_operations, created_by) "
        "VALUES ($1, $2, 'bench', 'admin', '{*}', $1)",
        account_id,
        org_id,
    )
    await connection.execute(
        "INSERT INTO service_account_keys (id, org_id, service_account_id, key_hash, hint, expires_at) "
        "VALUES ($1, $2, $3, $4, '…', now() + interval '1 day')",
        new_id(),
        org_id,
        account_id,
        token_hash(key),
    )
    await connection.executemany(
        "INSERT INTO projects (id, org_id, name, title) VALUES ($1, $2, $3, 'A project')",
        [(new_id(), org_id, f"project-{n}") for n in range(ROWS + 10)],
    )
    # Limits are not what is measured here.
    await connection.execute(
        "INSERT INTO policy_overrides (key, value, guardrail, set_from, set_by_name, reason) "
        "SELECT k, v::jsonb, false, 'global', 'bench', 'bench' FROM (VALUES "
        "('rate_limit.default_per_minute', '1000000'), ('rate_limit.default_burst', '100000'), "
        "('identity.projects_per_org_max', '100000')) AS limits (k, v)"
    )
    await connection.close()
