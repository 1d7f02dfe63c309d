"""Who posts hears of it when it is on disk, though those who waited for the account did not wait for the disk."""

import asyncio

import asyncpg

from gpuaas.contracts.http.billing import AccountKind, PostingKind
from gpuaas.domains.billing.ledger import service as ledger
from gpuaas.domains.billing.ledger.models import Posting, between
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.ids import new_id
from tests.support.purse import Purse, purse_of
from tests.support.servers import DatabaseUrls, clone


async def posted(purse: Purse) -> str:
    """How far the log was written when the rows were in it."""
    async with purse.writing() as tx:
        legs = between(5, AccountKind.CREDITS)
        wanted = Posting(kind=PostingKind.CREDIT, key=new_id().hex, org_id=purse.org_id, legs=legs)
        await ledger.post(tx, wanted)
        assert tx.early
        written: str = await tx.value("SELECT pg_current_wal_insert_lsn()::text")
    return written


async def test_what_was_posted_is_on_disk_when_its_poster_goes_on(template: DatabaseUrls) -> None:
    """Many times and at once. The tests' server waits for no disk unless told to."""
    async with clone(template) as urls:
        owner = await asyncpg.connect(urls.superuser)
        name = await owner.fetchval("SELECT current_database()")
        await owner.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = on')
        db = Database(urls.app)
        await db.open()
        async with purse_of(db) as purse:
            for _ in range(10):
                for written in await asyncio.gather(*(posted(purse) for _ in range(4))):
                    assert await owner.fetchval("SELECT pg_current_wal_flush_lsn() >= $1::text::pg_lsn", written)
        await db.close()
        await owner.close()
