"""The relay against a bare NATS publisher: the same messages into a stream of the same kind, PostgreSQL and NATS with
full durability, each in a process of its own."""

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

import asyncpg

from bench.figures import Figure, in_turns
from gpuaas.infra.embedded.home import make_temporary_directory
from gpuaas.infra.embedded.nats import EmbeddedNats
from gpuaas.infra.embedded.ports import free_port
from gpuaas.infra.embedded.postgres import EmbeddedPostgres
from gpuaas.infra.postgres import migrate

EVENTS = 10_000
READY_SECONDS = 30
LONGEST_SECONDS = 120
FILL = """
INSERT INTO outbox (id, stream, name, version, org_id, subject_id, actor, correlation_id, traceparent, payload)
SELECT uuidv7(), 'PLATFORM', 'project.created', 1, uuidv7(), uuidv7(), 'user:' || uuidv7(), repeat('c', 26),
       '00-' || repeat('a', 32) || '-' || repeat('b', 16) || '-01',
       jsonb_build_object('project_id', uuidv7(), 'name', 'bench-' || n)
FROM generate_series(1, $1) AS n
"""
LEFT = "SELECT EXISTS (SELECT FROM outbox WHERE published_at IS NULL)"


@dataclass(frozen=True)
class RelayStage:
    superuser_url: str
    nats_url: str


def run(only: str | None) -> list[Figure]:
    if only not in {None, "rows"}:
        return []
    with _stage() as ready:
        return [in_turns("relay.rows", "rows/s", lambda: asyncio.run(_relayed(ready)), lambda: _published(ready), 0.5)]


async def _relayed(ready: RelayStage) -> float:
    """Rows a second from the commit that wrote them until the last one is marked."""
    connection = await asyncpg.connect(ready.superuser_url)
    try:
        await connection.execute(FILL, EVENTS)
        started = time.perf_counter()
        while await connection.fetchval(LEFT):
            if time.perf_counter() - started > LONGEST_SECONDS:
                raise RuntimeError("the relay does not relay")
            await asyncio.sleep(0.02)
        return EVENTS / (time.perf_counter() - started)
    finally:
        await connection.close()


def _published(ready: RelayStage) -> float:
    ran = subprocess.run(
        [sys.executable, "-m", "bench.bare_publisher", ready.nats_url, str(EVENTS)],
        capture_output=True,
        check=True,
        timeout=LONGEST_SECONDS,
    )
    return float(ran.stdout)


@contextmanager
def _stage() -> Iterator[RelayStage]:
    home = make_temporary_directory()
    postgres, nats = EmbeddedPostgres(home), EmbeddedNats(home)
    relay: subprocess.Popen[bytes] | None = None
    try:
        urls, nats_url, port = postgres.start(), nats.start(), free_port()
        migrate.upgrade(urls.owner, app_role="gpuaas_app")
        with (home / "relay.log").open("wb") as log:
            relay = subprocess.Popen(
                [sys.executable, "-m", "gpuaas", "relay"],
                stderr=log,
                env=os.environ
                | {
                    "GPUAAS_DATABASE_URL": urls.app,
                    "GPUAAS_NATS_URL": nats_url,
                    "GPUAAS_METRICS_PORT": str(port),
                    "GPUAAS_MASTER_KEY": base64.b64encode(os.urandom(32)).decode(),
                    "GPUAAS_PUBLIC_URL": "http://127.0.0.1",
                    "GPUAAS_ENVIRONMENT": "demo",
                },
            )
        _wait(port, home / "relay.log")
        yield RelayStage(urls.superuser, nats_url)
    finally:
        if relay is not None:
            relay.terminate()
            with suppress(subprocess.TimeoutExpired):
                relay.wait(10)
            relay.kill()
        nats.destroy()
        postgres.destroy()
        shutil.rmtree(home, ignore_errors=True)


def _wait(port: int, log: Path) -> None:
    give_up_at, said = time.monotonic() + READY_SECONDS, ""
    while time.monotonic() < give_up_at:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2):
                return
        except urllib.error.HTTPError as error:
            said = error.read().decode()
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"the relay did not get ready: {said} {log.read_text()[-1000:]}")
