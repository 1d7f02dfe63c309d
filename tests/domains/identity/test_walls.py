"""Row-level security around identity's tables, with the application's own wall taken away."""

from uuid import UUID

import asyncpg
import pytest

from gpuaas.infra.postgres.tx import PLATFORM, Sight
from gpuaas.kit.ids import new_id

TENANT_TABLES = (
    "orgs", "projects", "org_members", "project_members", "invitations", "service_accounts", "service_account_keys",
)  # fmt: skip


@pytest.fixture(scope="module")
async def two_orgs(city):
    """Two organisations with something in every table, of people who do not know each other."""
    made = []
    for name in ("ada", "eve"):
        owner, helper = await city.person(name), await city.person("helper")
        org = await city.org(owner, member=helper)
        project = (await city.made(owner, f"/orgs/{org}/projects", {"name": "p"}))["id"]
        await city.ask(owner, "PUT", f"/projects/{project}/members/{helper.id}", {"role": "admin"})
        body = {"name": "robot", "role": "viewer", "allowed_operations": ["*"]}
        account = await city.made(owner, f"/orgs/{org}/service-accounts", body)
        await city.made(owner, f"/orgs/{org}/service-accounts/{account['id']}/keys", {})
        made.append((org, owner))
    return made


async def ids(tx, table):
    column = "id" if table == "orgs" else "org_id"
    return {str(row[column]) for row in await tx.rows(f"SELECT {column} FROM {table}")}


@pytest.mark.parametrize("table", TENANT_TABLES)
async def test_a_tenant_sees_its_own_rows_and_no_other(city, two_orgs, table):
    (mine, _), (other, _) = two_orgs
    async with city.db.read(Sight(UUID(mine))) as tx:
        assert await ids(tx, table) == {mine}
    async with city.db.read(Sight()) as tx:
        assert await ids(tx, table) == set()
    async with city.db.read(Sight(PLATFORM)) as tx:
        assert {mine, other} <= await ids(tx, table)


async def test_a_person_sees_himself_his_memberships_and_nobody_else(city, two_orgs):
    (mine, ada), (other, _) = two_orgs
    async with city.db.read(Sight(None, ada.id)) as tx:
        assert [row["id"] for row in await tx.rows("SELECT id FROM users")] == [ada.id]
        assert {mine, str(ada.personal_org)} == await ids(tx, "orgs")
        assert other not in await ids(tx, "org_members")


async def test_a_tenant_writes_nothing_into_another_one(city, two_orgs):
    (mine, ada), (other, _) = two_orgs
    for sql, args in (
        ("INSERT INTO projects (id, org_id, name, title) VALUES ($1, $2, 'x', 'x')", (new_id(), UUID(other))),
        ("INSERT INTO org_members (org_id, user_id, role) VALUES ($2, $1, 'owner')", (ada.id, UUID(other))),
        ("INSERT INTO orgs (id, name, title) VALUES ($1, $2, 'x')", (new_id(), new_id().hex)),
    ):  # fmt: skip
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with city.db.transaction(Sight(UUID(mine), ada.id), "test") as tx:
                await tx.run(sql, *args)
    async with city.db.transaction(Sight(UUID(mine), ada.id), "test") as tx:
        assert await tx.run("UPDATE orgs SET title = 'x' WHERE id = $1", UUID(other)) == 0
        assert await tx.run("DELETE FROM org_members WHERE org_id = $1", UUID(other)) == 0
        assert await tx.run("UPDATE users SET name = 'x' WHERE id <> $1", ada.id) == 0


async def test_the_application_cannot_delete_what_must_be_kept(city, two_orgs):
    for table in ("users", "orgs", "projects", "invitations", "service_accounts", "service_account_keys"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with city.db.transaction(Sight(PLATFORM), "test") as tx:
                await tx.run(f"DELETE FROM {table}")
