"""What an organisation sees of its usage through the API: sums that are those of the ledger, files that calculate
nothing, and for how long its balance lasts."""

import csv
import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from gpuaas.domains.billing.meters import service
from gpuaas.domains.billing.meters.models import MeterWanted
from gpuaas.infra.postgres.database import Database
from gpuaas.kit.ids import OrgId, ProjectId, SkuId, new_id
from tests.support.people import City, Person, city_of, refusal
from tests.support.servers import DatabaseUrls
from tests.support.slot_yard import Tenant, Yard, yard_of

HOURLY = 3_500_000  # of a GPU, as the yard sells it


@pytest.fixture(scope="module")
async def yard(db: Database, database: DatabaseUrls) -> AsyncIterator[Yard]:
    async with yard_of(db, database.superuser) as made:
        await made.sql.execute("SET app.org_id = '*'")
        yield made


@pytest.fixture(scope="module")
async def city(db: Database) -> AsyncIterator[City]:
    async with city_of(db) as made:
        yield made


async def home(city: City) -> tuple[Person, Tenant]:
    owner = await city.person()
    org_id = await city.org(owner)
    project = await city.made(owner, f"/orgs/{org_id}/projects", {"name": "p", "title": "P"})
    return owner, Tenant(OrgId(UUID(org_id)), ProjectId(UUID(project["id"])))


async def used(yard: Yard, who: Tenant, sku_id: SkuId, hours: int, **changed: Any) -> UUID:
    """GPUs that were held for so many hours, until just now, and are paid for."""
    ended = await yard.sql.fetchval("SELECT clock_timestamp()")
    wanted = MeterWanted(
        **{
            "subject_id": new_id(),
            "org_id": who.org_id,
            "project_id": who.project_id,
            "sku_id": sku_id,
            "gpus": 1,
            "price_id": await yard.sql.fetchval("SELECT id FROM sku_prices WHERE sku_id = $1", sku_id),
            "micros_per_gpu_hour": HOURLY,
            "currency": "USD",
            "asked_by": "ada",
            "asked_by_id": None,
        }
        | changed
    )
    async with yard.db.transaction(who.sight, "test") as tx:
        await service.meter_open(tx, wanted, at=ended - timedelta(hours=hours))
        await service.meter_close(tx, wanted.subject_id, at=ended, reason="release")
        await service.meter_settle(tx, wanted.subject_id)
    return wanted.subject_id


async def test_usage_is_summed_up_by_day_project_sku_and_user(city: City, yard: Yard):
    (owner, who), one, two = await home(city), await yard.sku(), await yard.sku()
    other = await city.made(owner, f"/orgs/{who.org_id}/projects", {"name": "other", "title": "O"})
    bob = new_id()
    await used(yard, who, one.id, 2, gpus=2)
    await used(yard, who, two.id, 1, project_id=ProjectId(UUID(other["id"])), asked_by="bob", asked_by_id=bob)

    async def lines(**query: Any) -> list[tuple[str, int, int]]:
        said = await city.get(owner, f"/orgs/{who.org_id}/usage", **query)
        assert said["complete"]
        return [(line["name"], line["gpu_seconds"], line["micros"]) for line in said["lines"]]

    hour = 3_600
    assert await lines(by="project") == [("p", 4 * hour, 4 * HOURLY), ("other", hour, HOURLY)]
    assert await lines(by="sku") == [(one.name, 4 * hour, 4 * HOURLY), (two.name, hour, HOURLY)]
    assert await lines(by="user") == [("ada", 4 * hour, 4 * HOURLY), ("bob", hour, HOURLY)]
    by_day = await lines()
    assert sum(micros for _, _, micros in by_day) == 5 * HOURLY
    assert {datetime.fromisoformat(day).date() for day, _, _ in by_day} <= {
        datetime.now(UTC).date(),
        (datetime.now(UTC) - timedelta(minutes=5)).date(),
    }
    assert await lines(by="sku", user_id=str(bob)) == [(two.name, hour, HOURLY)]
    assert await lines(by="user", project_id=other["id"], sku_id=str(one.id)) == []
    assert await lines(to=(datetime.now(UTC) - timedelta(days=1)).isoformat()) == []
    ledger = await yard.sql.fetchval("SELECT -sum(amount_micros) FROM ledger_entries WHERE org_id = $1", who.org_id)
    assert ledger == 5 * HOURLY


async def test_the_export_has_a_line_for_each_allocation_and_no_cell_that_calculates(city: City, yard: Yard):
    (owner, who), sku = await home(city), await yard.sku()
    subjects = {str(await used(yard, who, sku.id, 1, asked_by='=HYPERLINK("http://evil")')) for _ in range(2)}
    answer = await city.ask(owner, "GET", f"/orgs/{who.org_id}/usage-export/csv")
    assert answer.status_code == 200
    lines = list(csv.DictReader(io.StringIO(answer.text)))
    assert {line["allocation_id"] for line in lines} == subjects
    assert {(line["user"], line["seconds"], line["amount"], line["currency"]) for line in lines} == {
        ('\'=HYPERLINK("http://evil")', "3600", "3.50", "USD")
    }


async def test_the_runway_is_the_balance_by_what_runs(city: City, yard: Yard):
    (owner, who), sku = await home(city), await yard.sku()
    nothing = (await city.get(owner, f"/orgs/{who.org_id}/runway"))["runways"]
    assert [(one["currency"], one["runway_seconds"], one["empty_at"]) for one in nothing] == [("USD", None, None)]
    await yard.sql.fetch(
        "SELECT ledger_post('top_up', $1, $2, 'USD', '{tenant,clearing}', '{35000000,-35000000}', NULL, 'test', NULL, "
        "'test', 'test')",
        new_id().hex,
        who.org_id,
    )
    wanted = MeterWanted(
        subject_id=new_id(),
        org_id=who.org_id,
        project_id=who.project_id,
        sku_id=sku.id,
        gpus=2,
        price_id=await yard.sql.fetchval("SELECT id FROM sku_prices WHERE sku_id = $1", sku.id),
        micros_per_gpu_hour=HOURLY,
        currency="USD",
        asked_by="ada",
    )
    began = await yard.sql.fetchval("SELECT clock_timestamp()")
    async with yard.db.transaction(who.sight, "test") as tx:
        await service.meter_open(tx, wanted, at=began - timedelta(hours=1))
    (one,) = (await city.get(owner, f"/orgs/{who.org_id}/runway"))["runways"]
    assert (one["balance_micros"], one["burn_micros_per_hour"], one["meters"]) == (35_000_000, 2 * HOURLY, 1)
    assert one["unposted_micros"] >= 2 * HOURLY
    assert one["runway_seconds"] == (35_000_000 - one["unposted_micros"]) * 3_600 // (2 * HOURLY)
    assert 0 < one["runway_seconds"] <= 4 * 3_600


async def test_a_time_that_makes_no_sense_is_refused(city: City):
    owner, who = await home(city)
    now = datetime.now(UTC)
    for query in (
        {"from": now.isoformat(), "to": (now - timedelta(days=1)).isoformat()},
        {"from": (now - timedelta(days=1_000)).isoformat()},
        {"from": "0001-01-01T00:00:00Z"},
        {"to": "9999-12-31T23:59:59Z"},
    ):
        for path in ("usage", "usage-export/csv"):
            answer = await city.ask(owner, "GET", f"/orgs/{who.org_id}/{path}", **query)
            assert refusal(answer) == (422, "period_refused"), query


async def test_members_who_have_nothing_to_do_with_money_do_not_see_it(city: City):
    owner, member, billing = await city.person(), await city.person(), await city.person()
    org_id = await city.org(owner, member=member, billing=billing)
    for path in ("usage", "usage-export/csv", "runway"):
        assert refusal(await city.ask(member, "GET", f"/orgs/{org_id}/{path}"))[0] == 403
        assert (await city.ask(billing, "GET", f"/orgs/{org_id}/{path}")).status_code == 200
