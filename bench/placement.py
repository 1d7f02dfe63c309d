"""Group `placement`: what it costs from a request to reserved GPUs through the API, as a ratio to pgbench running the
same statements; and what a claim costs on ten thousand nodes, as a ratio to a hundred."""

import asyncio
import shutil
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import asyncpg
import msgspec

from bench.figures import RUNS, Figure, in_turns
from bench.recorded import RecordingTx, fresh_text, script
from bench.stage import Stage, http_per_second, pgbench_per_second, stage
from gpuaas.contracts.actor import Actor, ActorKind
from gpuaas.contracts.http.allocations import AllocationCreate
from gpuaas.contracts.policy_keys import POLICY_KEYS
from gpuaas.domains.allocations.placement import service as placement
from gpuaas.domains.allocations.requests.service import allocation_request
from gpuaas.domains.inventory import service as inventory
from gpuaas.infra.embedded.home import make_temporary_directory
from gpuaas.infra.embedded.postgres import EmbeddedPostgres
from gpuaas.infra.http.pipeline import CLAIM
from gpuaas.infra.postgres import migrate
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.finish import AuditEntry, StoredAnswer, finish
from gpuaas.infra.postgres.tx import Sight
from gpuaas.kit.ids import AllocationId, OrgId, ProjectId, SkuId, new_id
from gpuaas.ports.policy import PolicyReader

CLIENTS = 8
MIN_CREATE_RATIO = 0.35
MAX_CLAIM_RATIO = 1.5
FEW, MANY = 100, 10_000
CLAIMS = 100
WARM = 10
LEASE_SECONDS = 15
GPUS = 8
CREATE_NODES = 1_000
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJlbmNoYmVuY2hiZW5jaGJlbmNoYmVuY2hiZW5jaGJl"
QUOTAS = {"quota.gpus": 1_000_000, "quota.allocations": 100_000}
SKU = """
INSERT INTO skus (id, name, title, shape, gpu_vendor, gpu_model, gpu_memory_bytes, gpus_per_node, allowed_gpu_counts,
                  whole_node_only, needs_nvme, needs_fabric, region)
VALUES ($1, 'bench', 'Bench', 'baremetal', 'NVIDIA', 'H200', 1, 8, '{1,2,4,8}', false, false, false, 'eu-1')
"""
PRICE = """
INSERT INTO sku_prices (id, sku_id, currency, micros_per_gpu_hour, valid_from, set_by)
VALUES (uuidv7(), $1, 'USD', 3500000, now() - interval '1 day', 'bench')
"""
NODES = """
INSERT INTO nodes (id, name, region, sku_id, state, inspected_at, host_healthy, enrolled_at)
SELECT uuidv7(), 'n-' || n, 'eu-1', $1, 'active', now(), true, now() FROM generate_series(1, $2) AS n
"""
HEARD = """
INSERT INTO node_heartbeats (node_id, seen_at, sent_at, liveness, liveness_since, boot_id, agent_version, next_sequence,
                             generation, accounts)
SELECT id, now() + interval '1 day', now(), 'online', now(), 'b', '1', 1, 1, '{}' FROM nodes
"""
SLOTS = """
INSERT INTO slots (id, node_id, sku_id, serial, gpu_index, address, vendor, model, memory_bytes, numa, iommu_group,
                   nvme_address, fabric_address, present)
SELECT uuidv7(), n.id, $1, n.id || '-' || i, i, '0000-' || i, 'NVIDIA', 'H200', 1, i / 4, i, 'n', 'f', true
FROM nodes n, generate_series(0, 7) AS i
"""
# Of four nodes one is full, two are half full and one is empty.
HALF_HELD = """
UPDATE slots s SET held = true FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM nodes) AS nodes
WHERE nodes.id = s.node_id AND (nodes.n % 4 = 0 OR (nodes.n % 4 IN (1, 2) AND s.gpu_index < 4))
"""
ALLOCATION = """
INSERT INTO allocations (id, org_id, project_id, name, sku_id, gpu_count, node_count, isolation, price_id, requested_by,
                         ssh_keys, state, due_at, lease_seconds, correlation_id)
SELECT $1::uuid, $2, $3, ($1::uuid)::text, $4, $5, 1, 'user-revoke', id, 'bench', '{}', 'requested', now(), 60, 'bench'
FROM sku_prices WHERE sku_id = $4
"""
AS_BEFORE = """
SET session_replication_role = replica;
TRUNCATE allocations CASCADE;
TRUNCATE flow_runs CASCADE;
UPDATE slots SET held = false WHERE held;
SET session_replication_role = origin;
"""
FIRST_FREE = """
(SELECT array_agg(id) FROM (SELECT id FROM slots WHERE sku_id = '{sku}' AND present AND NOT held
 ORDER BY sku_id, node_id, gpu_index LIMIT 4) AS free)
"""


def run(only: str | None) -> list[Figure]:
    figures: list[Figure] = []
    if only in {None, "create"}:
        with stage() as ready:
            figures.append(_create(ready))
    if only in {None, "claim", "claim_whole"}:
        with _yards() as (few, many):
            if only in {None, "claim"}:
                figures.append(_claims("placement.claim", few, many, gpu_count=1))
            if only in {None, "claim_whole"}:
                figures.append(_claims("placement.claim_whole", few, many, gpu_count=GPUS))
    return figures


async def _fill(connection: Any, nodes: int) -> SkuId:
    sku_id = SkuId(new_id())
    await connection.execute(SKU, sku_id)
    await connection.execute(PRICE, sku_id)
    await connection.execute(NODES, sku_id, nodes)
    await connection.execute(HEARD)
    await connection.execute(SLOTS, sku_id)
    return sku_id


# through the API -----------------------------------------------------------------------------------------------------
class Generous(PolicyReader):
    """The defaults, but for quotas: they are counted, and not what is measured."""

    def number(self, key: str, org_id: UUID | None = None, project_id: UUID | None = None) -> int:
        return int(QUOTAS.get(key, POLICY_KEYS[key].default))

    def text(self, key: str, org_id: UUID | None = None, project_id: UUID | None = None) -> str:
        return str(POLICY_KEYS[key].default)

    def flag(self, key: str, org_id: UUID | None = None, project_id: UUID | None = None) -> bool:
        return bool(POLICY_KEYS[key].default)

    def changed(self) -> None:
        """Nothing is remembered."""


@dataclass
class Asking:
    """For whom the recorded request is."""

    tx: RecordingTx
    actor: Actor
    org_id: OrgId
    project_id: ProjectId
    policy: PolicyReader


def _create(ready: Stage) -> Figure:
    project_id, sku_id = asyncio.run(_prepared(ready))
    body = f'{{"sku_id": "{sku_id}", "name": "c-{{n}}", "ssh_keys": ["{KEY}"]}}'
    path = f"/api/v1/projects/{project_id}/allocations"
    request = ready.request("POST", path, body, Idempotency_Key="{n}")
    same = asyncio.run(_recorded(ready, project_id, sku_id))

    def ours() -> float:
        asyncio.run(_as_before(ready))
        return http_per_second(ready.port, CLIENTS, request)

    def limit() -> float:
        asyncio.run(_as_before(ready))
        return pgbench_per_second(ready, same, CLIENTS)

    return in_turns("placement.create", "creates/s", ours, limit, MIN_CREATE_RATIO)


MONEY = """
SELECT transaction_id FROM ledger_post('credit', 'bench', $1, 'USD', '{tenant,credits}',
    '{1000000000000,-1000000000000}', NULL, 'bench', NULL, 'bench', 'bench')
"""


async def _prepared(ready: Stage) -> tuple[ProjectId, SkuId]:
    connection = await asyncpg.connect(ready.superuser_url)
    try:
        sku_id = await _fill(connection, CREATE_NODES)
        await connection.executemany(
            "INSERT INTO policy_overrides (key, value, guardrail, set_from, set_by_name, reason) "
            "VALUES ($1, $2, false, 'global', 'bench', 'bench')",
            [(key, str(value)) for key, value in QUOTAS.items()],
        )
        project_id = await connection.fetchval("SELECT id FROM projects WHERE org_id = $1 LIMIT 1", ready.org_id)
        await connection.execute("SET app.org_id = '*'")
        await connection.fetchval(MONEY, ready.org_id)
    finally:
        await connection.close()
    await asyncio.sleep(3)  # until the api has read its policies again
    return ProjectId(project_id), sku_id


async def _as_before(ready: Stage) -> None:
    """Each run begins with everything free."""
    connection = await asyncpg.connect(ready.superuser_url)
    await connection.execute(AS_BEFORE)
    await connection.execute("VACUUM ANALYZE slots")
    await connection.execute("VACUUM ANALYZE nodes")
    await connection.execute("ANALYZE allocations")
    await connection.close()


async def _recorded(ready: Stage, project_id: ProjectId, sku_id: SkuId) -> str:
    """What the pipeline and the verb send for one request, taken back at the end."""
    sight = Sight(ready.org_id, ready.account_id)
    connection = await asyncpg.connect(ready.app_url)
    actor = Actor(kind=ActorKind.SERVICE_ACCOUNT, id=ready.account_id, name="bench")
    try:
        await connection.execute("BEGIN; " + sight.assignments("SET LOCAL"))
        tx = RecordingTx(connection, sight, "service_account-bench")
        await tx.value(CLAIM, ready.account_id, "key", "allocation_create", bytes(32))
        asking = Asking(tx, actor, OrgId(ready.org_id), project_id, Generous())
        made = await allocation_request(asking, AllocationCreate(sku_id=sku_id, name="name", ssh_keys=[KEY]))
        entry = AuditEntry(
            id=new_id(),
            action="allocation.request",
            operation="allocation_create",
            actor_kind="service_account",
            actor_id=ready.account_id,
            actor_name="bench",
            org_id=ready.org_id,
            project_id=project_id,
            subject_id=made.id,
            correlation_id="c" * 26,
            client_ip="127.0.0.1",
            details='"' + "d" * 300 + '"',
        )
        await finish(tx, entry, StoredAnswer(ready.account_id, "key", 202, b"b" * 1_000))
        slots = next(args[2] for sql, args in tx.statements if "slots_claim" in sql)
        price_id = await connection.fetchval("SELECT price_id FROM allocations WHERE id = $1", made.id)
        known = frozenset({ready.org_id, ready.account_id, project_id, sku_id, price_id})
        instead = {"key": fresh_text("k"), "name": fresh_text("b"), tuple(slots): FIRST_FREE.format(sku=sku_id)}
        # Events are JSON, in which a colon is no variable's.
        statements = [(sql, tuple(map(_plain, args))) for sql, args in tx.statements]
        return await script(connection, statements, known=known, instead=instead)
    finally:
        await connection.close()


def _plain(value: Any) -> Any:
    """JSON of the same length that pgbench does not read variables in."""
    if isinstance(value, list) and value and isinstance(value[0], str) and value[0].startswith("{"):
        return [msgspec.json.encode("j" * len(text)).decode() for text in value]
    return value


# claims --------------------------------------------------------------------------------------------------------------
@dataclass
class Yard:
    """A database with so many nodes, half of their GPUs held."""

    nodes: int
    app_url: str
    org_id: OrgId
    project_id: ProjectId
    sku_id: SkuId


@contextmanager
def _yards() -> Iterator[tuple[Yard, Yard]]:
    home = make_temporary_directory()
    postgres = EmbeddedPostgres(home)
    try:
        urls = postgres.start()
        migrate.upgrade(urls.owner, app_role="gpuaas_app")
        yards = [asyncio.run(_yard(urls.superuser, urls.app, nodes)) for nodes in (FEW, MANY)]
        yield yards[0], yards[1]
    finally:
        postgres.destroy()
        shutil.rmtree(home, ignore_errors=True)


def _called(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


async def _yard(superuser_url: str, app_url: str, nodes: int) -> Yard:
    name, template = f"yard_{nodes}", urlsplit(superuser_url).path.lstrip("/")
    template = urlsplit(app_url).path.lstrip("/") or template
    maker = await asyncpg.connect(_called(superuser_url, "postgres"))
    await maker.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    await maker.close()
    connection = await asyncpg.connect(_called(superuser_url, name))
    try:
        org_id, project_id = OrgId(new_id()), ProjectId(new_id())
        await connection.execute("INSERT INTO orgs (id, name, title) VALUES ($1, 'bench', 'B')", org_id)
        await connection.execute(
            "INSERT INTO projects (id, org_id, name, title) VALUES ($1, $2, 'p', 'P')", project_id, org_id
        )
        sku_id = await _fill(connection, nodes)
        await connection.execute(HALF_HELD)
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()
    return Yard(nodes, _called(app_url, name), org_id, project_id, sku_id)


def _claims(name: str, few: Yard, many: Yard, *, gpu_count: int) -> Figure:
    """Milliseconds of a claim: medians of runs in which the two yards are asked claim by claim in turns."""
    pairs: list[tuple[float, float]] = []
    for _ in range(RUNS):
        pairs.append(asyncio.run(_claim_ms(many, few, gpu_count)))
        sys.stderr.write(f"  {name}: {pairs[-1][0]:.2f} ms on {MANY:,} nodes, {pairs[-1][1]:.2f} ms on {FEW}\n")
    return Figure(
        name,
        statistics.median(ours for ours, _ in pairs),
        "ms",
        statistics.median(limit for _, limit in pairs),
        statistics.median(ours / limit for ours, limit in pairs),
        MAX_CLAIM_RATIO,
        at_least=False,
    )


async def _claim_ms(many: Yard, few: Yard, gpu_count: int) -> tuple[float, float]:
    async with _opened(many, gpu_count) as on_many, _opened(few, gpu_count) as on_few:
        for _ in range(WARM):
            await on_many(), await on_few()
        pairs = [(await on_many(), await on_few()) for _ in range(CLAIMS)]
    return statistics.median(ours for ours, _ in pairs), statistics.median(limit for _, limit in pairs)


class TakenBack(Exception):
    """Ends a transaction without its commit, so that the next one finds the same."""


@asynccontextmanager
async def _opened(yard: Yard, gpu_count: int) -> AsyncIterator[Callable[[], Awaitable[float]]]:
    """A claim, and how long it took."""
    db = Database(yard.app_url)
    await db.open()
    async with db.read(Sight(yard.org_id)) as reading:
        sku = await inventory.sku_get(reading, yard.sku_id)
    ask = placement.Ask(sku=sku, gpu_count=gpu_count, node_count=1)

    async def claim() -> float:
        allocation_id = AllocationId(new_id())
        try:
            async with db.transaction(Sight(yard.org_id), "bench") as tx:
                await tx.run(ALLOCATION, allocation_id, yard.org_id, yard.project_id, yard.sku_id, gpu_count)
                began = time.perf_counter()
                placed = await placement.place(tx, allocation_id, yard.org_id, ask, lease_seconds=LEASE_SECONDS)
                spent = (time.perf_counter() - began) * 1000
                raise TakenBack if placed else RuntimeError("nothing was free")
        except TakenBack:
            return spent

    try:
        yield claim
    finally:
        await db.close()
