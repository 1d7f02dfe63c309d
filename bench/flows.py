"""Flows against bare commits: a flow of four steps that do nothing, one of which waits for an agent, on one worker,
beside pgbench committing a row at a time; and what a worker weighs while two thousand flows wait."""

import asyncio
import base64
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import asyncpg
import nats

from bench.figures import Figure, bounded, in_turns
from bench.fleet_stage import Program
from bench.stage import Stage, pgbench_per_second, stage
from gpuaas.domains.runs.models import HINT
from gpuaas.infra.embedded.ports import free_port

FLOWS = 300
WAITING = 2_000
CLIENTS = 8
AGENTS = 4
LONGEST_SECONDS = 120
RSS_MB = 150.0
SETTLE_SECONDS = 5.0
COMMIT = "INSERT INTO flow_bench (value) VALUES (1);"
START = """
INSERT INTO flow_runs (id, kind, version, subject_id, org_id, state, step, next_at, due_at, correlation_id, traceparent,
                       created_by)
SELECT uuidv7(), 'allocation.provision', 1, uuidv7(), $3, 'forward', '', now() + $2::interval,
       now() + interval '1 hour', 'bench', '', 'bench'
FROM generate_series(1, $1)
"""
# As the transaction of a task's result does it, one subject at a time.
WAITS = (
    "SELECT subject_id FROM flow_runs WHERE state = 'forward' AND step = 'asks' AND wakes = 0 AND lease_until IS NULL"
)
WAKE = (
    "UPDATE flow_runs SET next_at = now(), wakes = wakes + 1 WHERE subject_id = $1 AND state IN ('forward', 'undoing')"
)
LEFT = "SELECT count(*) FROM flow_runs WHERE ended_at IS NULL"


def run(only: str | None) -> list[Figure]:
    figures: list[Figure] = []
    with stage() as ready:
        asyncio.run(_prepare(ready))
        if only in {None, "flows"}:
            with _worker(ready):
                figures.append(
                    in_turns(
                        "flows.flows",
                        "per s",
                        lambda: asyncio.run(_flows(ready)),
                        lambda: pgbench_per_second(ready, COMMIT, CLIENTS),
                        0.03,
                    )
                )
        if only in {None, "waiting_rss"}:
            figures.append(bounded("flows.waiting_rss", "MB", asyncio.run(_weight(ready)), RSS_MB))
    return figures


async def _prepare(ready: Stage) -> None:
    connection = await asyncpg.connect(ready.superuser_url)
    await connection.execute(
        "CREATE TABLE flow_bench (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, value integer);"
        "GRANT SELECT, INSERT ON flow_bench TO gpuaas_app"
    )
    await connection.close()


async def _flows(ready: Stage) -> float:
    """Flows a second, from the first commit that starts one until all have ended; agents answer at once."""
    pool = await asyncpg.create_pool(ready.superuser_url, min_size=AGENTS, max_size=AGENTS)
    bus = await nats.connect(ready.nats_url)
    woken: set[UUID] = set()

    async def answer(subject_id: UUID) -> None:
        await pool.execute(WAKE, subject_id)
        await bus.publish(HINT)

    try:
        started = time.perf_counter()
        await pool.execute(START, FLOWS, timedelta(0), ready.org_id)
        await bus.publish(HINT)
        while await pool.fetchval(LEFT):
            if time.perf_counter() - started > LONGEST_SECONDS:
                raise RuntimeError("flows do not end")
            waiting = {row["subject_id"] for row in await pool.fetch(WAITS)} - woken
            woken |= waiting
            await asyncio.gather(*map(answer, waiting))
            await asyncio.sleep(0.01)
        return FLOWS / (time.perf_counter() - started)
    finally:
        await bus.close()
        await pool.close()


async def _weight(ready: Stage) -> float:
    """What a worker weighs while so many flows wait for agents: each is a row, nothing more."""
    connection = await asyncpg.connect(ready.superuser_url)
    await connection.execute(START, WAITING, timedelta(hours=1), ready.org_id)
    port = free_port()
    worker = Program(
        "worker",
        f"http://127.0.0.1:{port}/readyz",
        {
            "GPUAAS_DATABASE_URL": ready.app_url,
            "GPUAAS_NATS_URL": ready.nats_url,
            "GPUAAS_METRICS_PORT": str(port),
            "GPUAAS_MASTER_KEY": base64.b64encode(os.urandom(32)).decode(),
            "GPUAAS_TASK_SIGNING_KEY": base64.b64encode(os.urandom(32)).decode(),
            "GPUAAS_PUBLIC_URL": "http://127.0.0.1",
            "GPUAAS_OBJECTS_URL": (ready.home / "objects").as_uri(),
            "GPUAAS_ENVIRONMENT": "demo",
        },
        ready.home / "worker.log",
    )
    try:
        worker.start().ready()
        await asyncio.sleep(SETTLE_SECONDS)
        return _resident(worker.pid)
    finally:
        worker.stop()
        await connection.close()


def _resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) / 1024


@contextmanager
def _worker(ready: Stage) -> Iterator[None]:
    with (ready.home / "flow_worker.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.flow_worker", ready.app_url, ready.nats_url], stderr=log
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(10)
