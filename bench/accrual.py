"""Group `accrual`: one pass that charges for a hundred thousand running meters of a thousand organisations, through the
product's own verb, as a ratio to one bare INSERT … SELECT of as many rows into a table like that of usage."""

import asyncio
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import asyncpg

from bench.figures import Figure, in_turns
from gpuaas.domains.billing.meters import service
from gpuaas.infra.embedded.home import make_temporary_directory
from gpuaas.infra.embedded.postgres import EmbeddedPostgres
from gpuaas.infra.postgres import migrate
from gpuaas.infra.postgres.database import Database

METERS = 100_000
ORGS = 1_000
MIN_RATIO = 0.25
DUE_SECONDS = 2.1
"""By then each meter owes something again, and the last window is over."""
FILL = f"""
INSERT INTO orgs (id, name, title) SELECT uuidv7(), 'bench-' || i, 'Bench' FROM generate_series(1, {ORGS}) AS i;
INSERT INTO projects (id, org_id, name, title) SELECT uuidv7(), id, 'p', 'P' FROM orgs WHERE name LIKE 'bench-%';
INSERT INTO skus (id, name, title, shape, gpu_vendor, gpu_model, gpu_memory_bytes, gpus_per_node, allowed_gpu_counts,
                  whole_node_only, needs_nvme, needs_fabric, region, state)
VALUES (uuidv7(), 'bench', 'Bench', 'baremetal', 'NVIDIA', 'H200', 1, 8, '{{1}}', false, false, false, 'eu', 'active');
INSERT INTO sku_prices (id, sku_id, currency, micros_per_gpu_hour, valid_from, set_by)
SELECT uuidv7(), id, 'USD', 3500000, now() - interval '1 day', 'bench' FROM skus WHERE name = 'bench';
INSERT INTO meters (id, org_id, project_id, subject_id, sku_id, gpus, price_id, micros_per_hour, currency, asked_by,
                    opened_at, billed_until)
SELECT uuidv7(), p.org_id, p.id, uuidv7(), k.sku_id, 1, k.id, 3500000, 'USD', 'bench', began, began
FROM (SELECT now() - interval '1 hour' AS began) AS b, sku_prices k, projects p, generate_series(1, {METERS // ORGS})
WHERE p.name = 'p' AND k.set_by = 'bench';
CREATE TABLE bare_usage (LIKE usage INCLUDING ALL);
ANALYZE;
"""
BARE = """
INSERT INTO bare_usage (id, org_id, meter_id, number, from_at, until_at, seconds, micros, transaction_id)
SELECT uuidv7(), org_id, id, billed_number + 1, billed_until, now(), 60, 58333, uuidv7() FROM meters ORDER BY org_id, id
"""


@dataclass(frozen=True)
class Ground:
    app_url: str
    superuser_url: str


def run(only: str | None) -> list[Figure]:
    if only not in {None, "pass"}:
        return []
    with _ground() as ground:
        asyncio.run(_execute(ground, FILL))
        asyncio.run(_passed(ground))  # what is opened for the first time owes an hour: not what is measured
        return [
            in_turns(
                "accrual.pass",
                "meters per s",
                lambda: asyncio.run(_passed(ground)),
                lambda: METERS / asyncio.run(_execute(ground, BARE)),
                MIN_RATIO,
            )
        ]


async def _passed(ground: Ground) -> float:
    """Meters a second, all of which owed something."""
    await asyncio.sleep(DUE_SECONDS)
    db = Database(ground.app_url)
    await db.open()
    try:
        began = time.perf_counter()
        posted = await service.accrue(db, window_seconds=1)
        spent = time.perf_counter() - began
    finally:
        await db.close()
    if posted != METERS:
        raise RuntimeError(f"{posted} of {METERS} meters were charged")
    return METERS / spent


async def _execute(ground: Ground, statement: str) -> float:
    connection = await asyncpg.connect(ground.superuser_url)
    try:
        began = time.perf_counter()
        await connection.execute(statement)
        return time.perf_counter() - began
    finally:
        await connection.close()


@contextmanager
def _ground() -> Iterator[Ground]:
    home = make_temporary_directory()
    postgres = EmbeddedPostgres(home)
    try:
        urls = postgres.start()
        migrate.upgrade(urls.owner, app_role="gpuaas_app")
        yield Ground(urls.app, urls.superuser)
    finally:
        postgres.destroy()
        shutil.rmtree(home, ignore_errors=True)
