"""The sealer: every row gets its link, whoever seals and whatever dies on the way."""

import asyncio

import asyncpg
import pytest

from gpuaas.domains.audit import handlers, service, store
from gpuaas.domains.audit.chain import GENESIS, links
from gpuaas.domains.audit.models import Head
from gpuaas.domains.audit.service import audit_seal, chain_verify, seal_state
from gpuaas.domains.policy.models import Override, Place
from gpuaas.domains.policy.reader import MemoryPolicy
from gpuaas.infra.postgres.database import AWAY, Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.infra.signing import Purpose, SigningKeys
from gpuaas.kit.errors import Unavailable
from gpuaas.kit.parts import Parts
from tests.support.audit_trail import seal_all, write

ALL = Sight(PLATFORM)


@pytest.fixture
async def db(template):
    """A database of its own for each test: chains are counted from their beginning."""
    from tests.support.servers import clone

    async with clone(template) as urls:
        opened = Database(urls.app, read_pool_size=4, write_pool_size=12)
        await opened.open()
        yield opened
        await opened.close()


async def report(db: Database, keys: SigningKeys):
    async with db.snapshot(ALL) as tx:
        return await chain_verify(tx, keys)


async def test_rows_become_gapless_links_in_batches(db, keys, policy):
    written = await write(db, 1_203)
    assert await seal_all(db, keys, policy) == 1_203
    found = await report(db, keys)
    assert (found.links, found.flaw_count, found.flaws) == (1_203, 0, [])
    async with db.read(ALL) as tx:
        rows = await tx.rows("SELECT seq, audit_id FROM audit_seals ORDER BY seq")
        state = await seal_state(tx)
    assert [row["seq"] for row in rows] == list(range(1, 1_204))
    assert [row["audit_id"] for row in rows] == sorted(written)
    assert (state.unsealed, state.sealed_through, state.checkpoint_through) == (0, 1_203, 1_203)


async def test_nothing_to_seal_is_nothing_done(db, keys, policy):
    assert await audit_seal(db, keys, policy) == 0
    assert (await report(db, keys)).links == 0
    async with db.read(ALL) as tx:
        assert await tx.value("SELECT count(*) FROM audit_checkpoints") == 0


async def test_ten_sealers_at_once_while_rows_come_make_one_chain(db, keys, policy):
    async def writer():
        for _ in range(20):
            await write(db, 10)

    async def sealer():
        for _ in range(30):
            await audit_seal(db, keys, policy)
            await asyncio.sleep(0.002)

    await asyncio.gather(writer(), writer(), *(sealer() for _ in range(10)))
    await seal_all(db, keys, policy)
    found = await report(db, keys)
    assert (found.links, found.flaws) == (400, [])


async def test_a_sealer_whose_head_has_moved_changes_nothing(db, keys, policy):
    """The lock is the first wall; the head is the second, for a sealer that would ignore the first."""
    await write(db, 2)
    async with db.read(ALL) as tx:
        rows = await store.waiting(tx, 10)
    stale = links(rows, after_seq=0, after_hash=GENESIS)
    await seal_all(db, keys, policy)
    async with db.transaction(ALL, "test") as tx:
        assert not await store.seal(tx, Head(0, GENESIS), stale)
    assert (await report(db, keys)).flaws == []


async def test_a_sealer_killed_before_its_commit_leaves_everything_to_the_next(db, keys, policy, monkeypatch):
    await write(db, 5)

    async def killed(*_: object) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(service, "_checkpoint_if_due", killed)
    with pytest.raises(asyncio.CancelledError):
        await audit_seal(db, keys, policy)
    monkeypatch.undo()
    async with db.read(ALL) as tx:
        assert (await seal_state(tx)).unsealed == 5
    assert await seal_all(db, keys, policy) == 5
    assert (await report(db, keys)).flaws == []


async def test_sealers_whose_connections_are_killed_again_and_again_make_one_chain(template, db, keys, policy):
    """As when the database is restarted: whatever was not committed is done again."""
    async with db.read(ALL) as tx:
        name = await tx.value("SELECT current_database()")
    killer = await asyncpg.connect(template.superuser)
    await write(db, 3_000)
    done = asyncio.Event()

    async def sealer() -> None:
        while not done.is_set():
            try:
                if await audit_seal(db, keys, policy) == 0:
                    await asyncio.sleep(0.01)
            except (*AWAY, asyncpg.PostgresError, Unavailable):
                await asyncio.sleep(0.01)

    sealers = [asyncio.create_task(sealer()) for _ in range(3)]
    for _ in range(25):
        await asyncio.sleep(0.02)
        await killer.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND usename = 'gpuaas_app'", name
        )
    done.set()
    await asyncio.gather(*sealers)
    await killer.close()
    await seal_all(db, keys, policy)
    found = await report(db, keys)
    assert (found.links, found.flaws) == (3_000, [])


async def test_the_timer_finds_what_it_needs_in_the_workers_parts(db, keys, policy):
    await write(db, 3)
    await handlers.audit_seal(Parts(db, keys, policy))
    assert (await report(db, keys)).links == 3


async def test_a_row_of_a_transaction_that_ends_late_is_sealed_after_younger_ones(db, keys, policy):
    async with db.unfinished(ALL, "slow") as tx:
        from gpuaas.infra.postgres.finish import finish
        from tests.support.audit_trail import entry

        late = entry()
        await finish(tx, late)
        await write(db, 3)
        assert await seal_all(db, keys, policy) == 3
    assert await seal_all(db, keys, policy) == 1
    assert (await report(db, keys)).flaws == []


async def test_requests_do_not_wait_for_the_sealer(db, keys, policy):
    await write(db, 3)
    async with db.transaction(ALL, "test") as tx:
        assert await store.sealer_lock(tx)
        await store.head(tx)
        async with asyncio.timeout(2):
            await write(db, 1)
        assert await audit_seal(db, keys, policy) == 0, "another sealer is at it"


async def test_checkpoints_come_by_age_or_by_rows(db, keys):
    policy = MemoryPolicy()
    policy.load(1, [Override(key="audit.checkpoint_rows", place=Place(), value=10)])
    counts = []
    for rows in (1, 1, 9, 1):
        await write(db, rows)
        await seal_all(db, keys, policy)
        async with db.read(ALL) as tx:
            counts.append(await tx.value("SELECT count(*) FROM audit_checkpoints"))
    assert counts == [1, 1, 2, 2]
    policy.load(2, [Override(key="audit.checkpoint_seconds", place=Place(), value=1)])
    await asyncio.sleep(1.05)
    await audit_seal(db, keys, policy)
    async with db.read(ALL) as tx:
        assert await tx.value("SELECT max(seq) FROM audit_checkpoints") == 12
    assert (await report(db, keys)).flaws == []


async def test_checkpoints_verify_across_a_rotation_of_the_key(db, keys, policy):
    await write(db, 1)
    await seal_all(db, keys, policy)
    async with db.transaction(ALL, "test") as tx:
        await keys.rotate(tx, Purpose.AUDIT)
    await write(db, 1)
    await seal_all(db, keys, policy)
    async with db.read(ALL) as tx:
        assert await tx.value("SELECT count(DISTINCT key_id) FROM audit_checkpoints") == 2
    found = await report(db, keys)
    assert (found.checkpoints, found.flaws) == (2, [])


async def test_the_chain_can_be_checked_from_any_link_on(db, keys, policy):
    await write(db, 50)
    await seal_all(db, keys, policy)
    async with db.snapshot(ALL) as tx:
        found = await chain_verify(tx, keys, from_seq=31)
    assert (found.links, found.flaws) == (20, [])


async def test_the_application_may_move_the_head_and_nothing_else_of_it(db):
    for sql in (
        "DELETE FROM audit_head",
        "INSERT INTO audit_head VALUES (true, 1, '')",
        "TRUNCATE audit_head",
        "UPDATE audit_head SET only_row = true",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with db.transaction(ALL, "test") as tx:
                await tx.run(sql)
