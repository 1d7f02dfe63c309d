"""Quotas and the queue by the command line, on the live API."""

import asyncpg
import pytest

from gpuaas.infra.postgres.database import Database
from gpuaas.kit.ids import OrgId, ProjectId, new_id
from tests.support.servers import DatabaseUrls
from tests.support.slot_yard import Tenant, Yard
from tests.support.terminal import Terminal


@pytest.fixture
async def home(ada: Terminal, db: Database, database: DatabaseUrls) -> tuple[Yard, Tenant]:
    """Ada's organisation, as the yard knows it."""
    sql = await asyncpg.connect(database.superuser)
    await ada.good("projects", "create", name := f"p-{new_id().hex[-12:]}")
    row = await sql.fetchrow("SELECT id, org_id FROM projects WHERE name = $1", name)
    assert row is not None
    return Yard(db, sql), Tenant(OrgId(row["org_id"]), ProjectId(row["id"]))


async def test_an_operator_sets_a_quota_and_its_people_read_it(
    ada: Terminal, admin: Terminal, home: tuple[Yard, Tenant]
):
    yard, who = home
    sku = await yard.sku()
    org = ("--org", str(who.org_id))
    assert "policy" in next(
        line for line in (await ada.good("quotas", "list", *org)).splitlines() if sku.gpu_model in line
    )
    said = await admin.good("quotas", "set", sku.gpu_model, "12", *org)
    assert "12" in said
    listed = await ada.good("quotas", "list", *org)
    assert any(sku.gpu_model in line and " 12 " in line for line in listed.splitlines())
    assert (await admin.run("quotas", "set", sku.gpu_model, "many", *org)).code == 2
    assert "holds" in await admin.good("quotas", "unset", sku.gpu_model, *org, "--yes")
    assert (await admin.run("quotas", "unset", sku.gpu_model, *org, "--yes")).code == 5


async def test_who_waits_is_listed_with_his_place_and_moved_by_an_operator(
    ada: Terminal, admin: Terminal, home: tuple[Yard, Tenant]
):
    yard, who = home
    sku, other = await yard.sku(), await yard.tenant()
    project = ("--project", str(who.project_id))
    assert "Nobody waits" in (await ada.run("queue", "list", *project)).err
    first, mine = await yard.allocation(other, sku, 8), await yard.allocation(who, sku, 8)
    told = await ada.good("queue", "list", *project)
    assert "2 of 2" in told
    assert "cannot be told" in told
    assert first.name not in told
    everybody = await admin.good("queue", "list", "--everybody")
    assert first.name in everybody
    assert mine.name in everybody
    moved = await admin.good("queue", "priority", str(mine.id), "5", "--reason", "a deadline")
    assert "1 of 2" in moved
    assert "2 of 2" in await admin.good("queue", "priority", "--reason", "over", "--", str(mine.id), "-5")
    assert (await admin.run("queue", "priority", str(mine.id), "101", "--reason", "x")).code == 2
    assert (await admin.run("queue", "priority", "mine", "1", "--reason", "x")).code == 2
