"""The ledger against bare inserts: postings a second through the posting function beside pgbench inserting the same
rows, a statement each, into tables of the same shape; the same on one account, where each has to wait for the one
before; what a balance costs to read in an account with ten million entries beside one with ten thousand; and how long
the proof of a million takes."""

import asyncio
import statistics
import sys
import time
from uuid import UUID

import asyncpg

from bench.figures import RUNS, Figure, bounded, in_turns
from bench.stage import Stage, pgbench_per_second, stage
from gpuaas.domains.admin.books import service as books
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.infra.postgres.database import COMMIT_EARLY, ON_DISK, Database
from gpuaas.infra.postgres.tx import Sight
from gpuaas.kit.ids import OrgId, new_id

CLIENTS = 8
ACCOUNTS = 1_000
MANY, FEW = 10_000_000, 10_000
READS = 300
PROVEN = 1_000_000
PROOF_SECONDS = 30.0
BATCH = 10_000
RANDOM = "\\set a random(1, 1000000000)\n\\set b random(1, 1000000000)\n\\set n random(1, 1000)\n"
KEY = ":client_id::text || '-' || :a::text || '-' || :b::text"
# A debit, whose floor is looked at. Only the platform posts for several organisations.
POST = f"""{RANDOM}
SELECT transaction_id FROM ledger_post('refund', {KEY}, (SELECT id FROM bench_orgs WHERE n = {{which}}), 'USD',
    '{{tenant,refunds}}', '{{-5,5}}', NULL, 'a posting', NULL, 'bench', 'bench');
"""
# Committed as the product commits what others wait for: the account is free before the disk has answered.
HOT = (
    POST.replace("SELECT transaction_id", "\\startpipeline\nBEGIN;\nSELECT transaction_id")
    + f"""{COMMIT_EARLY};
\\endpipeline
{ON_DISK};
"""
)
BARE = f"""{RANDOM}
BEGIN;
INSERT INTO bare_keys VALUES ('refund', {KEY}, uuidv7());
INSERT INTO bare_transactions VALUES (uuidv7(), now(), 'refund', {KEY}, (SELECT id FROM bench_orgs WHERE n = {{which}}),
    'USD', NULL, 'a posting', NULL, 'bench', 'bench');
INSERT INTO bare_entries VALUES
    ((SELECT id FROM bench_orgs WHERE n = {{which}}), uuidv7(), NULL, 1, -5, 1, sha256('a'));
INSERT INTO bare_entries VALUES (gen_random_uuid(), uuidv7(), NULL, 1, 5, 1, sha256('b'));
COMMIT;
"""
PREPARE = """
CREATE TABLE bench_orgs (n integer PRIMARY KEY, id uuid NOT NULL);
INSERT INTO bench_orgs SELECT n, uuidv7() FROM generate_series(1, 1000) AS n;
INSERT INTO orgs (id, name, title) SELECT id, 'bench-' || n, 'Bench' FROM bench_orgs;
CREATE TABLE bare_keys (LIKE ledger_keys INCLUDING ALL);
CREATE TABLE bare_transactions (LIKE ledger_transactions INCLUDING ALL) PARTITION BY RANGE (id);
CREATE TABLE bare_transactions_all PARTITION OF bare_transactions DEFAULT;
CREATE TABLE bare_entries (LIKE ledger_entries INCLUDING ALL) PARTITION BY RANGE (transaction_id);
CREATE TABLE bare_entries_all PARTITION OF bare_entries DEFAULT;
GRANT SELECT ON bench_orgs TO gpuaas_app;
GRANT INSERT ON bare_keys, bare_transactions, bare_entries TO gpuaas_app;
"""
TOP_UP = """
SELECT count(*) FROM bench_orgs b, LATERAL ledger_post('top_up', 'bench-' || b.n, b.id, 'USD', '{tenant,credits}',
    '{1000000000000,-1000000000000}', NULL, '', NULL, 'bench', 'bench')
"""
# As a superuser, past the posting function, which is measured above: rows of one account in the right order and shape.
FILL = """
INSERT INTO ledger_entries (account_id, transaction_id, org_id, number, amount_micros, balance_micros, hash)
SELECT $1, uuidv7(), $2, $3::bigint + n, 1, $3::bigint + n, '\\x00' FROM generate_series(1, $4::bigint) AS n
"""
POSTED = """
SELECT count(*) FROM ledger_post_many('refund', 'USD', 'refunds',
    (SELECT array_agg(b.id) FROM generate_series(1, $1) AS g JOIN bench_orgs b ON b.n = 1 + g % 1000),
    (SELECT array_agg($2 || ':' || g) FROM generate_series(1, $1) AS g),
    array_fill(-5::bigint, ARRAY[$1]), array_fill(NULL::uuid, ARRAY[$1]), array_fill('a posting'::text, ARRAY[$1]),
    'bench', 'bench')
"""


def run(only: str | None) -> list[Figure]:
    figures: list[Figure] = []
    with stage() as ready:
        asyncio.run(_prepare(ready))
        for name, script, which, bar in (("postings", POST, ":n", 0.7), ("hot_account", HOT, "1", 0.3)):
            if only in {None, name}:
                figures.append(
                    in_turns(
                        f"ledger.{name}",
                        "per s",
                        lambda script=script, which=which: _pgbench(ready, script, which),
                        lambda which=which: _pgbench(ready, BARE, which),
                        bar,
                    )
                )
        if only in {None, "proof"}:
            figures.append(bounded("ledger.proof", "s", asyncio.run(_proof(ready)), PROOF_SECONDS))
        if only in {None, "balance"}:
            figures.append(asyncio.run(_balance(ready)))
    return figures


def _pgbench(ready: Stage, script: str, which: str) -> float:
    return pgbench_per_second(ready, script.replace("{which}", which), CLIENTS, org="*")


async def _prepare(ready: Stage) -> None:
    connection = await asyncpg.connect(ready.superuser_url)
    await connection.execute(PREPARE)
    await connection.execute("SET app.org_id = '*'")
    await connection.execute(TOP_UP)
    await connection.execute("VACUUM ANALYZE")
    await connection.close()


async def _proof(ready: Stage) -> float:
    """Seconds to prove a million entries, made by the product's own way for many."""
    connection = await asyncpg.connect(ready.superuser_url)
    await connection.execute("SET app.org_id = '*'")
    while await connection.fetchval("SELECT count(*) FROM ledger_entries") < PROVEN:
        await connection.fetchval(POSTED, BATCH, new_id().hex)
    await connection.execute("ANALYZE ledger_entries, ledger_transactions")
    await connection.close()
    db = Database(ready.app_url)
    await db.open()
    began = time.perf_counter()
    equations, proof = await books.books_verify(db)
    spent = time.perf_counter() - began
    await db.close()
    if proof.count or not all(one.holds for one in equations) or proof.entries < PROVEN:
        raise RuntimeError(f"the books do not hold: {proof}")
    sys.stderr.write(f"  ledger.proof: {proof.entries:,} entries in {spent:.1f} s\n")
    return spent


async def _balance(ready: Stage) -> Figure:
    """Microseconds of a balance, asked in turns of the two accounts."""
    connection = await asyncpg.connect(ready.superuser_url)
    orgs = {size: await _filled(connection, number, size) for number, size in ((2, FEW), (3, MANY))}
    await connection.execute("VACUUM ANALYZE ledger_entries")
    await connection.close()
    db = Database(ready.app_url)
    await db.open()
    pairs = []
    for _ in range(RUNS):
        many, few = [], []
        for _ in range(READS):
            many.append(await _read(db, orgs[MANY]))
            few.append(await _read(db, orgs[FEW]))
        pairs.append((statistics.median(many), statistics.median(few)))
        sys.stderr.write(f"  ledger.balance: {pairs[-1][0]:.0f} µs of {MANY:,}, {pairs[-1][1]:.0f} µs of {FEW:,}\n")
    await db.close()
    return Figure(
        "ledger.balance",
        statistics.median(ours for ours, _ in pairs),
        "µs",
        statistics.median(limit for _, limit in pairs),
        statistics.median(ours / limit for ours, limit in pairs),
        2.0,
        at_least=False,
    )


async def _filled(connection: "asyncpg.Connection[asyncpg.Record]", number: int, size: int) -> UUID:
    """An account with so many entries. The last of them is a posting like any other."""
    org_id: UUID = await connection.fetchval("SELECT id FROM bench_orgs WHERE n = $1", number)
    account_id = await connection.fetchval("SELECT id FROM ledger_accounts WHERE org_id = $1", org_id)
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        for start in range(0, size, 1_000_000):
            await connection.execute(FILL, account_id, org_id, start + 10, min(1_000_000, size - start), timeout=600)
    return org_id


async def _read(db: Database, org_id: UUID) -> float:
    async with db.read(Sight(org_id)) as tx:
        began = time.perf_counter()
        found = await ledger.balance_at(tx, OrgId(org_id))
        spent = (time.perf_counter() - began) * 1_000_000
    if not found.balance_micros:
        raise RuntimeError("the account is empty")
    return spent
