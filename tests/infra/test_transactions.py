"""Transactions: what commits together, what is seen, what a lost connection leaves."""

import asyncpg
import pytest

from gpuaas.contracts.events.platform import OrgCreated
from gpuaas.infra.postgres.database import Database
from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.ids import new_id
from tests.support.servers import DatabaseUrls

INSERT_ORG = "INSERT INTO orgs (id, name, title) VALUES ($1, $2, 'T')"


async def test_a_change_and_its_event_commit_together(db: Database, superuser):
    org = new_id()
    async with db.transaction(Sight(org), "test") as tx:
        await tx.run(INSERT_ORG, org, f"o-{org.hex[:20]}")
        event_id = tx.emit(OrgCreated(org_id=org, name="o"), subject_id=org)
    row = await superuser.fetchrow("SELECT name, org_id, payload FROM outbox WHERE id = $1", event_id)
    assert (row["name"], row["org_id"]) == ("org.created", org)
    assert await superuser.fetchval("SELECT count(*) FROM orgs WHERE id = $1", org) == 1


async def test_a_failed_change_leaves_neither_row_nor_event(db: Database, superuser):
    org = new_id()
    with pytest.raises(RuntimeError):
        async with db.transaction(Sight(org), "test") as tx:
            await tx.run(INSERT_ORG, org, f"o-{org.hex[:20]}")
            tx.emit(OrgCreated(org_id=org, name="o"), subject_id=org)
            raise RuntimeError
    assert await superuser.fetchval("SELECT count(*) FROM orgs WHERE id = $1", org) == 0
    assert await superuser.fetchval("SELECT count(*) FROM outbox WHERE subject_id = $1", org) == 0


async def test_a_transaction_cannot_write_for_another_organisation(db: Database):
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with db.transaction(Sight(new_id()), "test") as tx:
            await tx.run(INSERT_ORG, new_id(), "someone-else")


async def test_a_connection_without_a_sight_sees_nothing(db: Database):
    org = new_id()
    async with db.transaction(Sight(org), "test") as tx:
        await tx.run(INSERT_ORG, org, f"o-{org.hex[:20]}")
    async with db.read(Sight()) as tx:
        assert await tx.rows("SELECT * FROM orgs") == []
    async with db.read(Sight(PLATFORM)) as tx:
        assert len(await tx.rows("SELECT * FROM orgs WHERE id = $1", org)) == 1


async def test_a_sight_takes_ids_only():
    with pytest.raises(ValueError, match="organisation id"):
        Sight("x'; DROP TABLE orgs; --").assignments("SET")


async def test_hooks_run_after_the_commit_and_not_after_a_failure(db: Database):
    ran: list[str] = []
    async with db.transaction(Sight(PLATFORM), "test") as tx:
        tx.after_commit(lambda: ran.append("good"))
        assert ran == []
    with pytest.raises(ZeroDivisionError):
        async with db.transaction(Sight(PLATFORM), "test") as tx:
            tx.after_commit(lambda: ran.append("bad"))
            raise ZeroDivisionError
    assert ran == ["good"]


async def test_a_patient_transaction_waits_longer_here_too(database: DatabaseUrls, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gpuaas.infra.postgres.database.COMMAND_SECONDS", 0.3)
    hurried = Database(database.app)
    await hurried.open()
    with pytest.raises(TimeoutError):
        async with hurried.snapshot(Sight(PLATFORM)) as tx:
            await tx.value("SELECT pg_sleep(1)")
    async with hurried.snapshot(Sight(PLATFORM)) as tx:
        await tx.be_patient(5)
        await tx.value("SELECT pg_sleep(1)")
        assert await tx.value("SHOW statement_timeout") == "5s"
    async with hurried.snapshot(Sight(PLATFORM)) as tx:
        assert await tx.value("SHOW statement_timeout") == "20s"
    await hurried.close()
